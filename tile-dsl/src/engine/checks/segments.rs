//! `segment`: every loop inside a tile can stop where the last tile of a segment ends.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit, list},
    nest::{Digit, Frame, LoopKind, Role, Segment, Steps, leaves, loops},
    plan::Leaves,
    schedule::{DirectiveKind, Space, Unit, Via},
    span::SpanId,
};

pub(super) fn check(context: &Context<'_>) -> Option<Diagnostic> {
    let segment = context.nest.segment?;
    let by = context.last(|k| matches!(k, DirectiveKind::Segment { .. }));
    let (why, span) = shared_out(context, segment)
        .map(|why| (why, None))
        .or_else(|| copied(context, segment))
        .or_else(|| goes_on(context, segment).map(|why| (why, None)))
        .or_else(|| exchanged(context, segment).map(|why| (why, None)))?;
    let diagnostic = context.at(by, SpanId::NONE, why);
    let diagnostic = match span {
        Some((span, note)) => diagnostic.note(span, note),
        None => diagnostic,
    };
    Some(diagnostic.edits(other_lengths(context, segment)).edits([Edit::instead([])]))
}

/// Lengths whose last tile has a half or a quarter of the points of a whole one, and three quarters.
fn other_lengths(context: &Context<'_>, Segment { digit, points }: Segment) -> impl Iterator<Item = Edit> {
    let axis = context.nest.axis(digit.axis).to_string();
    let whole = points - points % digit.stride;
    let parts = [2, 3, 1].map(|quarters| digit.stride / 4 * quarters);
    parts
        .into_iter()
        .filter(|rest| *rest > 0)
        .map(move |rest| Edit::instead([DirectiveKind::Segment { axis: axis.clone(), points: whole + rest }]))
}

/// Tiles go to CTAs one by one.
fn shared_out(context: &Context<'_>, segment: Segment) -> Option<String> {
    let nest = context.nest;
    let axis = nest.axis(segment.digit.axis);
    if nest.cluster.is_some() {
        return Some("CTAs of a cluster work on tiles of one size".into());
    }
    let over: Vec<LoopKind> =
        loops(&nest.body).into_iter().filter(|(d, _)| *d == segment.digit).map(|(_, at)| at).collect();
    if over.is_empty() || !over.iter().all(|at| matches!(at, LoopKind::Unit(Unit::Block, _))) {
        return Some(format!(
            "a CTA has one tile of `{axis}` where tiles are of two sizes, not a loop over them"
        ));
    }
    if !nest.across.is_empty() {
        let names: Vec<&str> = nest.across.keys().map(|v| nest.value(*v).name.as_str()).collect();
        return Some(format!("CTAs share the sums that {} holds, of tiles of one size", list(&names)));
    }
    None
}

type Why = (String, Option<(SpanId, String)>);

/// What is copied or collected for a tile can be so for a part of it.
fn copied(context: &Context<'_>, segment: Segment) -> Option<Why> {
    let nest = context.nest;
    let (axis, rest) = (segment.digit.axis, i64::from(segment.rest()));
    let moves = |index: &crate::index::Affine| index.coefficient(axis) != 0;
    for (tensor, output) in &nest.outputs {
        let name = &nest.tensor(*tensor).name;
        let along = nest.stored(*tensor).is_some_and(|(a, _)| nest.access(a).index.iter().any(moves));
        if along {
            let why =
                format!("`{name}` is collected for whole tiles, and the last of a segment has {rest} points");
            return Some((why, Some((output.span, format!("`{name}` is collected here")))));
        }
    }
    let mut found = None;
    leaves(&nest.body, &mut |path, _| {
        for frame in path {
            let Frame::Stage(copy) = frame else { continue };
            let of = nest.copy(*copy);
            let index = &nest.copied_access(*copy).index;
            if !index.iter().any(moves) {
                continue;
            }
            let name = nest.copy_name(*copy);
            if index.iter().any(|i| i.coefficient(axis) < 0) {
                let why = format!(
                    "`{name}` is copied backwards along `{}`: a part of its tile is not the first one",
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

/// The loops over the axis that would take a part of their steps, or of one step.
fn goes_on(context: &Context<'_>, segment: Segment) -> Option<String> {
    let nest = context.nest;
    let rest = segment.rest();
    let mut found = None;
    leaves(&nest.body, &mut |path, _| {
        for frame in path {
            let Frame::For(digit, at) = frame else { continue };
            if segment.reaches_beyond(*digit) {
                found = found.take().or_else(|| stops(context, segment, *digit, *at));
            }
        }
    });
    found.map(|why: String| format!("the last tile of a segment has {rest} points, and {why}"))
}

/// Why a loop that reaches beyond the last tile cannot stop there.
fn stops(context: &Context<'_>, segment: Segment, digit: Digit, at: LoopKind) -> Option<String> {
    let name = context.nest.digit_name(digit);
    let rest = segment.rest();
    match at {
        LoopKind::Atom(atom, Role::N) if digit.stride == 1 => {
            let none = segment.atom_in_last(atom, digit).is_none();
            none.then(|| format!("`{}` takes no {rest} columns at once", atom.row().name))
        }
        LoopKind::Atom(atom, _) => Some(format!("`{}` takes all of `{name}` at once", atom.row().name)),
        LoopKind::Unit(unit, dim) => {
            Some(format!("all steps of `{name}` are taken at once, by {unit}.{dim}"))
        }
        LoopKind::Vec => Some(format!("all steps of `{name}` are one vector")),
        LoopKind::Pipe(_) => Some(format!("copies run ahead of `{name}`")),
        LoopKind::Unroll | LoopKind::Serpentine | LoopKind::Seq => {
            let within = !rest.is_multiple_of(digit.stride);
            within.then(|| format!("a step of `{name}` has {}", digit.stride))
        }
    }
}

/// Lanes exchange four matrices, all of which there are.
fn exchanged(context: &Context<'_>, segment: Segment) -> Option<String> {
    let nest = context.nest;
    nest.exchanged.keys().find_map(|tensor| {
        let Ok(Leaves::Exchanged(how)) = context.stores.of_tensor(nest, *tensor)? else { return None };
        let parted = |(digit, taken): &(Digit, u32)| {
            matches!(segment.in_last(*digit).steps, Steps::Fixed(n) if !n.is_multiple_of(*taken))
        };
        how.fours.iter().any(parted).then(|| {
            format!(
                "lanes exchange 32 elements of a row of `{}`, and the last tile of a segment has {} points",
                nest.tensor(*tensor).name,
                segment.rest()
            )
        })
    })
}
