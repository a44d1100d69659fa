//! The digits of the enclosing loops: how threads take the steps of a loop, and how far the digits reach.

use super::{
    context::Cx,
    emit::{Atom, Op},
    linear::Linear,
};
use crate::{
    index::AxisId,
    machine::{Unit, UnitDim},
    nest::{Digit, Ends, LoopKind, Step, Steps, ends},
    op::BinOp,
    program::Variant,
};

/// In which order the steps of expanded loops are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOrder {
    /// As the schedule says, backwards every second time where a loop is serpentine. All roles walk so: the n-th step of one is the n-th of the other.
    Scheduled,
    /// By their points.
    Points,
}

/// How the threads at hand take the steps of a loop.
pub(super) enum Taken {
    /// Theirs alone, by its number: a CTA, a warp or a lane has one.
    One(Linear),
    /// One after the other in straight-line code.
    Each(Vec<Linear>),
    /// By a loop at run time.
    Loop,
}

/// How the threads at hand take the steps of a loop that is neither an atom's nor a ring's.
pub(super) fn taken(cx: &mut Cx<'_>, digit: Digit, at: LoopKind) -> Taken {
    match (at, digit.steps) {
        (LoopKind::Unit(Unit::Block, _), _) => {
            Taken::One(cx.env.tile.grid.values.get(&digit).cloned().unwrap_or_default())
        }
        (LoopKind::Unit(unit, dim), _) => Taken::One(unit_value(cx, unit, dim, digit)),
        (at, Steps::Fixed(steps)) if at.is_expanded() => Taken::Each(expanded(cx, digit, steps)),
        (LoopKind::Seq, Steps::Fixed(1)) => Taken::One(Linear::default()),
        _ => Taken::Loop,
    }
}

/// What each step of an expanded loop contributes: of one that CTAs share out, those of this CTA.
fn expanded(cx: &Cx<'_>, digit: Digit, steps: u32) -> Vec<Linear> {
    let steps = match in_tile(cx, digit).steps {
        Steps::Fixed(steps) => steps,
        Steps::Rest => steps,
    };
    let point = |step: u32| Linear::constant(i64::from(step) * i64::from(digit.stride));
    match cx.env.share.filter(|s| s.digit == digit) {
        None => (0..steps).map(point).collect(),
        Some(share) => (0..steps / share.ctas).map(|step| share.step(point(step))).collect(),
    }
}

/// Digits bound by the enclosing loops, as these run.
pub(super) fn digits(cx: &Cx<'_>) -> Vec<Digit> {
    let steps: Vec<Step> = cx.env.stack.iter().map(|b| (b.digit, b.at)).collect();
    let run = cx.view.nest.as_run(&steps).into_iter().zip(&steps);
    run.map(|(run, (digit, _))| if known_to_fill(cx, digit.axis) { *digit } else { run }).collect()
}

/// A digit as a loop over it runs.
pub(super) fn run_time(cx: &Cx<'_>, step: Step) -> Digit {
    if known_to_fill(cx, step.0.axis) { step.0 } else { cx.view.nest.at_run_time(step) }
}

/// Whether an axis with a bound has all points that its loops take, which the exact variant assumes where a statement takes
/// points of it.
fn known_to_fill(cx: &Cx<'_>, axis: AxisId) -> bool {
    cx.view.variant == Variant::Exact && !cx.view.nest.recurrences.contains_key(&axis)
}

/// Whether these digits reach points at or beyond the extent of the axis.
pub(super) fn ragged(cx: &Cx<'_>, axis: AxisId, digits: &[Digit]) -> bool {
    match ends(cx.view.nest, axis, digits) {
        _ if cx.env.full.contains(&axis) => false,
        Ends::Always => false,
        Ends::Never => true,
        Ends::Multiple(_) | Ends::Points(_) => cx.view.variant != Variant::Exact,
    }
}

/// What a digit bound to a unit contributes in this thread.
pub(super) fn unit_value(cx: &mut Cx<'_>, unit: Unit, dim: UnitDim, digit: Digit) -> Linear {
    let mut coordinate = cx.env.tile.units.coordinate(&mut cx.build.emit, unit, dim);
    if let Some(other) = cx.view.nest.skew.get(&digit) {
        let other = cx.env.tile.units.coordinate(&mut cx.build.emit, unit, *other);
        coordinate = cx.build.emit.op(Op::Bin(BinOp::Xor), &[coordinate, other]);
    }
    match coordinate {
        Atom::Var(var) => Linear::var(var).scaled(digit.stride.into()),
        _ => Linear::default(),
    }
}

/// A loop as the tile at hand has it.
pub(super) fn in_tile(cx: &Cx<'_>, digit: Digit) -> Digit {
    cx.view.plan.tiles.in_tile(digit, cx.env.tile.size)
}
