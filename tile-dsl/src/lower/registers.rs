//! Pipelines of registers: the loop is expanded, and the loads of a step to come stand among the computation of the one at hand.
//!
//! ```text
//! for s in 0..n-1: load(s)                          // n sets of registers
//! for s in 0..S: load(s + n - 1) among compute(s)
//! ```
//! By itself such a pipeline runs empty at its end. Where [`Carry`](crate::nest::Carry) admits it, the last step loads the
//! first registers of the next stage of the ring around it. The ring's one wait and barrier a step stand before that last
//! step, and nothing else waits:
//!
//! ```text
//! await the first stage; load(0) from it
//! for t: for s in 0..S-1: load(s + 1) of stage t among compute(s), in the first steps with what begins to fill t + d,
//!                         in the later ones with what lands of it
//!        await stage t + 1                           // everyone has left stage t
//!        load(0) of stage t + 1 among compute(S - 1)
//! ```
//! All of this is one straight line. Near the end nothing is skipped: the last registers, which nobody reads, come from the
//! stage at hand.

use super::{
    build::Holds,
    context::Cx,
    control::{self, Walk},
    digits,
    emit::{Atom, linear},
    env::Bound,
    error::LowerError,
    fill,
    flow::Ring,
    fragment::{self, FragmentPlan},
    interleave::{Among, Units, interleave},
    linear::Linear,
    ring,
    ring_stages::{self, Ahead},
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr},
    nest::{Digit, Fraction, Interleave, LoopKind, RegisterPipeline, Steps, Stmt},
    op::CmpOp,
    plan::Channel,
};
use std::ops::Range;

/// A pipeline of registers at the current point.
pub(super) struct RegisterPlan<'s> {
    of: RegisterPipeline<'s>,
    fragments: Vec<FragmentPlan>,
}

/// A loop that is a pipeline of registers.
pub(super) fn register_pipeline(
    cx: &mut Cx<'_>,
    digit: Digit,
    channel: &Channel,
    inner: &Stmt,
    walk: Walk,
) -> Result<(), LowerError> {
    let Steps::Fixed(steps) = digit.steps else {
        let axis = cx.view.axis_name(digit.axis);
        return Err(LowerError::Malformed(format!("a pipeline of registers over all of `{axis}`")));
    };
    let (copies, sets) = (channel.copies.clone(), channel.stages);
    let of = RegisterPipeline { units: Vec::new(), digit, steps, sets, copies, inner };
    let around = cx.env.stack.len();
    enter(cx, &of);
    let fragments = fragment::fragment_plans(cx, &of.copies, inner)?;
    let registers = RegisterPlan { of, fragments };
    load_first(cx, &registers)?;
    register_steps(cx, &registers, walk, |_, _| Ok(Among::default()))?;
    cx.env.stack.truncate(around);
    Ok(())
}

/// Stands at the first step of a pipeline of registers.
fn enter(cx: &mut Cx<'_>, of: &RegisterPipeline<'_>) {
    for (digit, at) in &of.units {
        let LoopKind::Unit(unit, dim) = at else { continue };
        let value = digits::unit_value(cx, *unit, *dim, *digit);
        cx.env.stack.push(Bound::new(*digit, *at, value));
    }
    cx.env.stack.push(Bound::new(of.digit, LoopKind::Unroll, Linear::default()));
}

/// The loads of all sets but one.
fn load_first(cx: &mut Cx<'_>, registers: &RegisterPlan<'_>) -> Result<(), LowerError> {
    for step in 0..registers.of.steps.min(registers.of.sets - 1) {
        let units = load_step(cx, registers, step)?;
        control::emit_all(cx, units.into_iter().flatten());
    }
    Ok(())
}

/// The steps, each with the loads for one to come and with what `around` has for it.
fn register_steps<'a>(
    cx: &mut Cx<'a>,
    registers: &RegisterPlan<'_>,
    walk: Walk,
    mut around: impl FnMut(&mut Cx<'a>, u32) -> Result<Among, LowerError>,
) -> Result<(), LowerError> {
    let RegisterPipeline { digit, steps, sets, inner, .. } = registers.of;
    for step in 0..steps {
        let mut among = around(cx, step)?;
        let next = step + sets - 1;
        if next < steps {
            among.early = load_step(cx, registers, next)?;
        }
        at_step(cx, digit, step);
        let top = cx.env.stack.len() - 1;
        cx.env.stack[top].pass = Some((step, steps));
        let main = fragment::compute_on(cx, &registers.fragments, step % sets, inner, walk)?;
        let part = cx.view.nest.interleave(digit).loads;
        control::emit_all(cx, interleave(main, part, among));
    }
    Ok(())
}

/// The loads of a step into its set, in units.
fn load_step(cx: &mut Cx<'_>, registers: &RegisterPlan<'_>, step: u32) -> Result<Units, LowerError> {
    at_step(cx, registers.of.digit, step);
    fragment::load_fragments(cx, &registers.fragments, step % registers.of.sets)
}

fn at_step(cx: &mut Cx<'_>, digit: Digit, step: u32) {
    let top = cx.env.stack.len() - 1;
    cx.env.stack[top].value = Linear::constant(i64::from(step) * i64::from(digit.stride));
}

/// Before a ring's loop, whose first stages are filled: loads the first registers.
pub(super) fn prefetch_across<'a, 's>(
    cx: &mut Cx<'a>,
    ring: &mut Ring<'a>,
    of: RegisterPipeline<'s>,
) -> Result<RegisterPlan<'s>, LowerError> {
    ring::await_stage(cx, &ring.flow);
    let around = cx.env.stack.len();
    let registers = ring::reading(cx, ring, Atom::i32(0), |cx| {
        enter(cx, &of);
        let fragments = fragment::fragment_plans(cx, &of.copies, of.inner)?;
        let registers = RegisterPlan { of, fragments };
        let exists = cx.build.emit.cmp(CmpOp::Lt, Atom::i32(0), ring.span.length);
        let mut loaded = Ok(());
        control::only_if(cx, Some(exists), |cx| loaded = load_first(cx, &registers));
        loaded.map(|()| registers)
    })?;
    cx.env.stack.truncate(around);
    let counter = cx.build.fragment(cx.view.nest, Holds::RingStage(ring.digit), DType::I32, 1);
    cx.build.emit.stmt(kernel::Stmt::Set { frag: counter, slot: 0, value: KExpr::Int(0, DType::I32) });
    ring.counter = Some(counter);
    Ok(registers)
}

/// What a step of the ring computes, with what it fills ahead among it.
pub(super) fn step_prefetching<'a>(
    cx: &mut Cx<'a>,
    ring: &Ring<'a>,
    (stage, ahead): (Atom, &Ahead),
    registers: &RegisterPlan<'_>,
    walk: Walk,
) -> Result<(), LowerError> {
    let [next, next_stage] = ring_stages::following(cx, ring, stage);
    let [begin, land] = fill::units_ahead(cx, ring, ahead)?;
    let RegisterPipeline { digit, steps, .. } = registers.of;
    let Interleave { copies, stores, .. } = cx.view.nest.interleave(digit);
    let part = |of: Fraction| of.floor(steps as usize) as u32;
    // The wait and the barrier stand before the last step: all are begun and landed by then.
    let early = 0..part(copies).clamp(1, steps - 1);
    let late = part(stores).min(steps - 2)..steps - 1;
    let around = cx.env.stack.len();
    ring::reading(cx, ring, stage, |cx| {
        enter(cx, &registers.of);
        register_steps(cx, registers, walk, |cx, step| {
            let even = [share(&begin, &early, step), share(&land, &late, step)].concat();
            let mut among = Among { early: Vec::new(), even };
            if step + 1 == steps {
                ring::await_stage(cx, &ring.flow);
                // What is not in the ring's stages moves with its loop.
                among.early = ring_stages::at_point(cx, ring, linear(next, 0), |cx| {
                    ring::reading(cx, ring, next_stage, |cx| load_step(cx, registers, 0))
                })?;
            }
            Ok(among)
        })
    })?;
    cx.env.stack.truncate(around);
    Ok(())
}

/// The share of one step in what is spread over some of them.
fn share<T: Clone>(all: &[T], over: &Range<u32>, step: u32) -> Vec<T> {
    if !over.contains(&step) {
        return Vec::new();
    }
    let done = |step: u32| all.len() * (step - over.start) as usize / over.len();
    all[done(step)..done(step + 1)].to_vec()
}
