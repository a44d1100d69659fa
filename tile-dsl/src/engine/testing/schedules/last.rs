//! Directives that no other depends on.

use super::Generator;
use crate::{
    directive::{self, DirectiveKind},
    engine::testing::Kind,
    nest::Stmt,
    schedule::{Directive, Evict},
    span::SpanId,
    tile::AxisKind,
};
use std::collections::BTreeSet;

impl Generator<'_> {
    /// Directives that no other depends on, after all others, which are then drawn as if these were not.
    pub(crate) fn last(&mut self) {
        // Those before it may be fewer than were proposed.
        for (n, directive) in (1..).zip(&mut self.schedule.directives) {
            directive.span = SpanId(n);
        }
        for tensor in &self.kernel.tensors {
            if self.chance(10) {
                let (_, evict) = *self.random.pick(&Evict::NAMED);
                self.propose(directive::Cache { tensor: tensor.name.clone(), evict });
            }
        }
        let dims: BTreeSet<&String> = self.kernel.axes.iter().flat_map(|a| a.extent.dims.keys()).collect();
        for dim in dims {
            let of = *self.random.pick(&[2, 3, 4, 8, 16]);
            let launched = self.extents.get(dim).is_none_or(|n| n % i64::from(of) == 0);
            if self.chance(15) && launched {
                self.propose(directive::Multiple { dim: dim.clone(), of });
            }
        }
        if self.chance(40) {
            self.segment(&BTreeSet::new(), false);
        }
        self.look_back();
    }

    /// Has CTAs share out the steps of a loop that carries a state.
    fn look_back(&mut self) {
        let mut carries = false;
        self.nests[0].body.each(&mut |stmt| carries |= matches!(stmt, Stmt::Set { .. }));
        // Loops are bound to CTAs where nothing else is said.
        let Some(Ok(nests)) = carries.then(|| self.proved()) else { return };
        for kind in nests.first().map(directive::lookback::candidates).unwrap_or_default() {
            if self.chance(70) {
                let _ = self.if_legal(kind.into());
            }
        }
    }

    /// A directive that the complete schedule has to admit; why it does not.
    fn if_legal(&mut self, kind: DirectiveKind) -> Result<(), String> {
        let span = SpanId(self.schedule.directives.len() as u32 + 1);
        self.schedule.directives.push(Directive { kind, span, inherited: None });
        self.proved().map(drop).map_err(|wrong| {
            self.schedule.directives.pop();
            wrong[0].message.clone()
        })
    }

    /// Tiles of two sizes, if the schedule is legal with them: tiles of an axis start over after one to three and a part,
    /// which is of three, five or seven points if it is to be odd.
    pub(crate) fn segment(&mut self, among: &BTreeSet<String>, odd: bool) {
        let tiles = self.schedule.directives.iter().filter_map(|d| match &d.kind {
            DirectiveKind::Tile(directive::Tile { axis, size }) => Some((axis.clone(), *size)),
            _ => None,
        });
        let program =
            |axis: &str| self.kernel.axes.iter().any(|a| a.name == axis && a.kind == AxisKind::Program);
        let mut tiles: Vec<(String, u32)> = tiles.filter(|(axis, size)| *size > 1 && program(axis)).collect();
        if tiles.iter().any(|(axis, _)| among.contains(axis)) {
            tiles.retain(|(axis, _)| among.contains(axis));
        }
        if tiles.is_empty() {
            return;
        }
        let (axis, tile) = self.random.pick(&tiles).clone();
        let whole = 1 + self.random.below(3) as u32;
        // Most loops can stop after half of their steps, or after all but one, which may be an odd number.
        let rests = [
            tile / 2,
            tile / 2,
            tile / 4 * 3,
            tile - 1,
            tile - 1,
            1 + self.random.below(tile as usize - 1) as u32,
        ];
        let mut rest = *self.random.pick(&rests);
        if rest == 0 {
            return;
        }
        // What one access may read together with half a word behind it.
        let pieces: Vec<u32> = [3, 5, 7].into_iter().filter(|n| *n < tile).collect();
        if odd && !pieces.is_empty() {
            rest = *self.random.pick(&pieces);
        }
        let kind = directive::Segment { axis, points: whole * tile + rest };
        if let Err(why) = self.if_legal(kind.into()) {
            self.refusals.push((Kind::Segment, why));
        }
    }
}
