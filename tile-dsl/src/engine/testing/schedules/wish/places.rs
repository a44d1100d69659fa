//! Where wished-for directives meet: loops around copies, and loops behind a reduction.

use super::super::Generator;
use crate::{
    directive::{self, DirectiveKind as D},
    engine::testing::Kind,
    nest::{Frame, Nest, ValueId, leaves},
    tile::AxisKind,
};
use std::collections::BTreeSet;

/// The axis of a loop, by its name.
pub(super) fn axis_of(digit: &str) -> &str {
    digit.split('.').next().unwrap_or_default()
}

/// A loop over the tiles of an axis that is no program axis.
fn of_tiles(nest: &Nest, frame: &Frame) -> Option<String> {
    let Frame::For(digit, _) = frame else { return None };
    let axis = &nest.kernel.axes[usize::from(digit.axis.0)];
    let name = nest.digit_name(*digit);
    (axis.kind != AxisKind::Program && !name.ends_with(".t")).then_some(name)
}

impl Generator<'_> {
    /// Whether a kernel has loops behind the parts of a reduction, or two program axes whose tiles a CTA can take there and back.
    pub(crate) fn meets(&mut self, splits: bool) -> bool {
        let (kind, why) = match splits {
            true if self.behind().is_empty() => (Kind::SplitK, "nothing comes behind a reduction"),
            false if self.program().count() < 2 => (Kind::Serpentine, "no two program axes"),
            _ => return true,
        };
        self.refusals.push((kind, why.into()));
        false
    }

    /// Gives a CTA several tiles, in loops around all that it does.
    pub(crate) fn tiles_of_a_cta(&mut self) {
        let axes: Vec<String> = self.program().map(|a| a.name.clone()).collect();
        let (mut outer, mut inner) = (vec![], vec![]);
        for axis in axes.into_iter().take(2) {
            self.fresh += 2;
            let names = vec![format!("d{}", self.fresh), format!("d{}", self.fresh + 1)];
            let factors = vec![*self.random.pick(&[2, 2, 3])];
            let split = D::Split(directive::Split {
                digit: crate::nest::over_tiles(axis),
                names: names.clone(),
                factors,
            });
            if self.propose(split) {
                outer.push(names[0].clone());
                inner.push(names[1].clone());
            }
        }
        if outer.len() > 1 {
            self.propose(directive::Reorder { digits: [outer, inner].concat(), within: None });
        }
    }

    /// Loops around a copy, all but the one that it is made in.
    pub(crate) fn around_copies(&self) -> BTreeSet<String> {
        let nest = &self.nests[0];
        let mut found = BTreeSet::new();
        leaves(&nest.body, &mut |path, _| {
            let copy = path.iter().rposition(|frame| matches!(frame, Frame::Stage(_)));
            let around = path[..copy.unwrap_or(0)].iter().filter_map(|frame| match frame {
                Frame::For(digit, _) => Some(nest.digit_name(*digit)),
                _ => None,
            });
            let mut around: Vec<String> = around.collect();
            around.pop();
            found.extend(around);
        });
        found
    }

    /// Axes that a reduction is over, each with a loop over the tiles of another axis that comes behind it.
    pub(crate) fn behind(&self) -> Vec<(String, String)> {
        let nest = &self.nests[0];
        let mut loops: Vec<(ValueId, bool, String)> = vec![];
        leaves(&nest.body, &mut |path, _| {
            for (n, frame) in path.iter().enumerate() {
                let (values, first) = match frame {
                    Frame::First(values) => (values, true),
                    Frame::Rest(values) => (values, false),
                    _ => continue,
                };
                for digit in path[n..].iter().filter_map(|frame| of_tiles(nest, frame)) {
                    loops.extend(values.iter().map(|v| (*v, first, digit.clone())));
                }
            }
        });
        let mut found = BTreeSet::new();
        for (value, _, before) in
            loops.iter().filter(|(v, first, _)| *first && nest.value(*v).reduction.is_some())
        {
            let behind = loops.iter().filter(|(v, first, _)| v == value && !first);
            let behind = behind.filter(|(_, _, digit)| axis_of(digit) != axis_of(before));
            found.extend(behind.map(|(_, _, digit)| (axis_of(before).to_string(), digit.clone())));
        }
        found.into_iter().collect()
    }

    /// Axes that a reduction is over which copies come behind.
    pub(crate) fn in_front_of_copies(&self) -> Vec<String> {
        let at: Vec<String> = self.copies(false).into_iter().map(|(_, at)| at).collect();
        self.behind().into_iter().filter(|(_, d)| at.contains(d)).map(|(axis, _)| axis).collect()
    }

    /// Axes of what is copied to shared memory.
    pub(crate) fn axes_of_copies(&self) -> BTreeSet<String> {
        let (nest, staged) = (&self.nests[0], self.staged());
        let copied = nest.accesses.iter().filter(|a| staged.contains(&nest.tensor(a.tensor).name));
        let axes = copied.flat_map(|a| a.index.iter().flat_map(|index| index.terms.keys()));
        let values = nest.values.iter().filter(|v| staged.contains(&v.name)).flat_map(|v| &v.axes);
        axes.chain(values).map(|axis| nest.axis(*axis).to_string()).collect()
    }

    /// Axes along the rows of copies with elements of two bytes: an odd number of them ends within a word.
    pub(crate) fn rows_of_halves(&self) -> BTreeSet<String> {
        let (nest, staged) = (&self.nests[0], self.staged());
        let halves = nest
            .accesses
            .iter()
            .filter(|a| staged.contains(&nest.tensor(a.tensor).name) && nest.elem(a.tensor).bytes() == 2);
        let rows = halves.filter_map(|a| a.index.last()).flat_map(|index| index.terms.keys());
        rows.map(|axis| nest.axis(*axis).to_string()).collect()
    }

    /// Values that each reader computes for itself.
    pub(crate) fn recomputed(&self) -> Vec<String> {
        let found = self.schedule.directives.iter();
        found
            .filter_map(|d| {
                if let D::Recompute(directive::Recompute { value }) = &d.kind {
                    Some(value.clone())
                } else {
                    None
                }
            })
            .collect()
    }
}
