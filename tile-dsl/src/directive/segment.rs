//! `segment`: tiles of an axis start again after so many points, and the last tile of each segment has what is left.
//!
//! ```text
//! tile(j = 192); segment(j: 512)      →  tiles of 192, 192, 128, 192, 192, 128, ..
//! ```
//! It rewrites no statement: the term is that of a whole tile ([`crate::nest::Segment`]). That the loops inside can stop earlier, the
//! complete schedule shows.
//! Tiles of two sizes share out evenly what tiles of one size do not: 4096 columns are five and a third tiles of 192 for each
//! quarter, but four of 192 and two of 128.
//! Cost: code for tiles of two sizes.

use super::prelude::*;
use crate::{
    engine::names,
    machine::{Space, Via},
    nest::{self, Digit, Frame, Steps, leaves, loops},
    plan::{Store, StorePath, Unsegmented},
    tile::AxisKind,
};
use std::collections::BTreeSet;

directive! {
    /// `segment(j: 512)`: tiles of an axis start over after so many points; the last of each segment has what is left.
    "segment(j: 512)" in Launch, 0:
    Segment { axis: String, points: u32 } => |s| s.one(axis, "an axis").mark(":").number(points)
}

impl Definition for Segment {
    const CHECK: Option<Check> = Some((Shows::Segments, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.axis, self.points)
    }
}

impl Drawn for Segment {
    const ORDERS: bool = true;

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        // Most of what is copied has tiles of two sizes then.
        let (halves, copied) = (generator.rows_of_halves(), generator.axes_of_copies());
        let (among, odd) = match generator.random.below(10) {
            0..5 if !halves.is_empty() => (halves, true),
            0..7 => (copied, false),
            _ => (BTreeSet::new(), false),
        };
        for _ in 0..6 {
            generator.segment(&among, odd);
            if crate::engine::testing::kinds(&generator.schedule).contains(&Kind::Segment) {
                break;
            }
        }
        vec![]
    }
}

/// Points of the longest segment.
const MOST: u32 = 1 << 15;

/// `segment(axis: points)`.
fn apply(nest: &Nest, axis: &str, points: u32) -> Result<(Nest, Proof), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let id = names::axis(nest, axis)?;
    let without = || Edit::remove();
    if let Some(other) = nest.segment {
        let text = format!(
            "tiles of `{}` are of two sizes already: a CTA has code for each size of its tile, and two such axes have four",
            nest.axis(other.digit.axis)
        );
        return Err(refuse(text).edit(without()));
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
        return Err(
            refuse(format!("`{axis}` is tiled in different ways in different statements")).edit(without())
        );
    };
    let tile = digit.stride;
    if tile == 1 {
        // Two whole tiles and one of two thirds.
        let sizes = [points / 8 * 3, points / 2 + 1].into_iter().filter(|size| (2..points).contains(size));
        let tiled = sizes.map(|size| Edit::put([directive::Tile { axis: axis.to_string(), size }]));
        let text = format!("`{axis}` has no tiles that could be of two sizes: each CTA has one point of it");
        return Err(refuse(text).edits(tiled).edit(without()));
    }
    let near = |points: u32| Edit::instead([directive::Segment { axis: axis.to_string(), points }]);
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
            "segment({axis}: {points}): tiles of {tile} points divide {points} points already, so no tile would be smaller"
        );
        return Err(refuse(text).edits(nearest()).edit(without()));
    }
    Ok((Nest { segment: Some(nest::Segment { digit, points }), ..nest.clone() }, Proof::default()))
}

/// Every loop inside a tile can stop where the last tile of a segment ends.
fn mistake(context: &Context<'_>) -> Option<Diagnostic> {
    let (nest, segment) = (context.nest, context.nest.segment?);
    let by = context.last(|k| matches!(k, DirectiveKind::Segment(_)));
    let tiles = |goes_on: bool| {
        let of_it = |why: &&Unsegmented| matches!(why, Unsegmented::GoesOn(_)) == goes_on;
        context.plan.tiles().unsegmented.iter().find(of_it).map(|why| (why.text(nest, segment), None))
    };
    let (why, span) = tiles(false)
        .or_else(|| copied(context, segment))
        .or_else(|| tiles(true))
        .or_else(|| exchanged(context, segment).map(|why| (why, None)))?;
    let diagnostic = context.at(by, SpanId::NONE, why);
    let diagnostic = match span {
        Some((span, note)) => diagnostic.note(span, note),
        None => diagnostic,
    };
    Some(diagnostic.edits(other_lengths(context, segment)).edits([Edit::remove()]))
}

/// Lengths whose last tile has a half or a quarter of the points of a whole one, and three quarters.
fn other_lengths(
    context: &Context<'_>,
    nest::Segment { digit, points }: nest::Segment,
) -> impl Iterator<Item = Edit> {
    let axis = context.nest.axis(digit.axis).to_string();
    let whole = points - points % digit.stride;
    let parts = [2, 3, 1].map(|quarters| digit.stride / 4 * quarters);
    parts
        .into_iter()
        .filter(|rest| *rest > 0)
        .map(move |rest| Edit::instead([directive::Segment { axis: axis.clone(), points: whole + rest }]))
}

type Why = (String, Option<(SpanId, String)>);

/// What is copied or collected for a tile can be so for a part of it.
fn copied(context: &Context<'_>, segment: nest::Segment) -> Option<Why> {
    let nest = context.nest;
    let (axis, rest) = (segment.digit.axis, i64::from(segment.rest()));
    let moves = |index: &crate::index::Affine| index.coefficient(axis) != 0;
    let stores = context.plan.stores();
    for (tensor, output) in &nest.outputs {
        let name = &nest.tensor(*tensor).name;
        let along =
            stores.collected(nest, *tensor).is_some_and(|s| nest.access(s.access).index.iter().any(moves));
        if along {
            let why =
                format!("`{name}` is collected for whole tiles, and the last of a segment has {rest} points");
            return Some((why, Some((output.span, format!("`{name}` is collected here")))));
        }
    }
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        for frame in path {
            let Frame::Stage(copy) = frame else { continue };
            let Some(access) = accesses.iter().find(|a| nest.serves(*copy, **a)) else { continue };
            let (of, index) = (nest.copy(*copy), &nest.access(*access).index);
            if !index.iter().any(moves) {
                continue;
            }
            let name = nest.copy_name(*copy);
            if index.iter().any(|i| i.coefficient(axis) < 0) {
                let why = format!(
                    "`{name}` is read backwards along `{}`: a smaller tile would not start where its copy does",
                    nest.axis(axis)
                );
                found = found.take().or(Some((why, None)));
                continue;
            }
            let note = Some((of.span, format!("`{name}` is staged here")));
            if of.space == Space::Register {
                let why = format!(
                    "`{name}` is held in registers for whole tiles, and the last of a segment has {rest} points"
                );
                found = found.take().or(Some((why, note)));
                continue;
            }
            let size = nest.elem(of.tensor).bytes();
            let (unit, what) = match of.via {
                // PTX ISA 5.5: their first coordinate.
                Via::Tma => {
                    (16 / size, format!("boxes of `{name}` begin at multiples of {} elements", 16 / size))
                }
                _ => {
                    let vector = of.vector.map_or(1, |bytes| (bytes / size).max(1));
                    (vector, format!("`{name}` is copied by {vector} elements at once"))
                }
            };
            let step = index[nest.contiguous(of.tensor)].coefficient(axis);
            if (step * rest) % i64::from(unit) != 0 {
                let why = format!("{what}, and the last tile of a segment has {rest} points");
                found = found.take().or(Some((why, note)));
            }
        }
    });
    found
}

/// Lanes exchange four matrices, all of which there are.
fn exchanged(context: &Context<'_>, segment: nest::Segment) -> Option<String> {
    let nest = context.nest;
    let parted = |(digit, taken): &(Digit, u32)| matches!(segment.in_last(*digit).steps, Steps::Fixed(n) if !n.is_multiple_of(*taken));
    nest.exchanged.keys().find_map(|tensor| {
        let mut stores = context.plan.stores().of_tensor(nest, *tensor);
        let of_parts = |store: &Store| {
            matches!(&store.how, Ok(StorePath::Exchanged(how)) if how.fours.iter().any(parted))
        };
        stores.any(of_parts).then(|| {
            format!(
                "lanes exchange 32 elements of a row of `{}`, and the last tile of a segment has {} points",
                nest.tensor(*tensor).name,
                segment.rest()
            )
        })
    })
}

fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    mistake(context).into_iter().collect()
}
