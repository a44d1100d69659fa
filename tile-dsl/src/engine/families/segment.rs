//! `segment`: tiles of an axis begin anew after so many points, and the last tile of each segment has what is left.
//!
//! ```text
//! tile(j = 192); segment(j: 512)      →  tiles of 192, 192, 128, 192, 192, 128, ..
//! ```
//! It rewrites no statement: the term is that of a whole tile ([`crate::nest::Segment`]). That the loops inside can stop earlier, the
//! complete schedule shows.
//! Tiles of two sizes share out evenly what tiles of one size do not: 4096 columns are five and a third tiles of 192 for each
//! quarter, but four of 192 and two of 128.

use super::{Failure, Proof};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::{Digit, Nest, Segment, Steps, loops},
    schedule::DirectiveKind,
    span::SpanId,
    tile::AxisKind,
};

/// Points of the longest segment.
const MOST: u32 = 1 << 15;

/// `segment(axis: points)`.
pub(in crate::engine) fn apply(nest: &Nest, axis: &str, points: u32) -> Result<(Nest, Proof), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let id = names::axis(nest, axis)?;
    let without = || Edit::instead([]);
    if nest.segment.is_some() {
        return Err(refuse("tiles of one axis begin anew, not of two".into()).edit(without()));
    }
    let own = &nest.kernel.axes[usize::from(id.0)];
    if own.kind != AxisKind::Program {
        return Err(refuse(format!("tiles of `{axis}` are not shared out among CTAs")).edit(without()));
    }
    if let Some(extent) = own.extent.as_constant() {
        let text = format!("`{axis}` has {extent} points in every launch: its tiles are known");
        return Err(refuse(text).edit(without()));
    }
    let mut over: Vec<Digit> = loops(&nest.body)
        .into_iter()
        .map(|(digit, _)| digit)
        .filter(|d| d.axis == id && d.steps == Steps::Rest)
        .collect();
    over.sort();
    over.dedup();
    let [digit] = over[..] else {
        return Err(refuse(format!("`{axis}` is not tiled alike at all places")).edit(without()));
    };
    let tile = digit.stride;
    if tile == 1 {
        // Two whole tiles and one of two thirds.
        let sizes = [points / 8 * 3, points / 2 + 1].into_iter().filter(|size| (2..points).contains(size));
        let tiled = sizes.map(|size| Edit::put([DirectiveKind::Tile { axis: axis.to_string(), size }]));
        let text = format!("`{axis}` has no tiles that could be of two sizes: each CTA has one point of it");
        return Err(refuse(text).edits(tiled).edit(without()));
    }
    let near = |points: u32| Edit::instead([DirectiveKind::Segment { axis: axis.to_string(), points }]);
    let nearest = || [2 * tile + tile.next_power_of_two() / 2, 2 * tile + 1].map(near);
    if points > MOST {
        let text = format!("segment({axis}: {points}): a segment has at most {MOST} points");
        return Err(refuse(text).edits(nearest()).edit(without()));
    }
    if points < tile {
        let text =
            format!("segment({axis}: {points}): a tile of `{axis}` has {tile} points, more than a segment");
        return Err(refuse(text).edits(nearest()).edit(without()));
    }
    if points.is_multiple_of(tile) {
        let text = format!(
            "segment({axis}: {points}): after {points} points tiles of {tile} begin anew in any case"
        );
        return Err(refuse(text).edits(nearest()).edit(without()));
    }
    Ok((Nest { segment: Some(Segment { digit, points }), ..nest.clone() }, Proof::default()))
}
