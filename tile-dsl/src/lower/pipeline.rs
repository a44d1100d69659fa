//! The pipeliner: what the walk does for a channel.
//!
//! ```text
//! for p in 0..d: if p < steps { fill(p) }               // d: the steps that a channel is filled ahead
//! for t: await full(t)
//!        if t + d < steps { begin(t + d) }
//!        read(t)
//!        if t + d < steps { land(t + d) }               // plain copies: loaded to registers before, stored now
//!        release(t)                                    // or release(t - n), once its products are done: n in flight
//! ```
//! A barrier behind `await full` says that all have left the stage before, which is the next to be filled. Where threads of
//! their own fill the stages (`roles`), those that read them do not; they say that a stage is free. Outside of a
//! pipeline a channel is the same without what does not apply to it.
//!
//! Here is the order of a step; which stages it means is [`super::ring_stages`]'s, how one is filled [`super::fill`]'s. What begins and
//! lands stands in place, or among the computation where that is a straight line: in a pipeline of registers, whose loads
//! are its own `begin`, and in a ring whose registers are prefetched across its iterations ([`super::registers`]).

use super::{
    context::Cx,
    control::{self, Walk},
    emit::Atom,
    error::LowerError,
    fill,
    flow::{Mbarriers, Ring},
    mbarriers,
    registers::{self, RegisterPlan},
    ring, ring_stages, skew, storage, turns,
};
use crate::{
    kernel::{self, Async},
    nest::{Carry, Digit, Stmt, chain},
    op::CmpOp,
    plan::{Full, InFlight, Producer},
};

/// Lowers a pipelined loop.
pub(super) fn pipeline(
    cx: &mut Cx<'_>,
    digit: Digit,
    stages: u32,
    body: &Stmt,
    walk: Walk,
) -> Result<(), LowerError> {
    let (copies, inner) = chain(body);
    let channel = match ring::channels(cx, (digit, stages), &copies, inner)? {
        [ahead, behind] => return skew::skewed(cx, digit, [ahead, behind], inner, walk),
        channels => &channels[0],
    };
    if channel.full(cx.view.variant) == Full::Program {
        return registers::register_pipeline(cx, digit, channel, inner, walk);
    }
    let mut ring = ring::ring(cx, digit, channel, inner)?;
    cx.env.stack.push(ring.start());
    if !matches!(ring.flow.plan.producer, Producer::Role(_)) {
        fill::prologue(cx, &ring)?;
    }
    let prefetched = match Carry::of(cx.view.nest, &copies, inner) {
        Carry::Over(registers) => Some(registers::prefetch_across(cx, &mut ring, registers)?),
        Carry::None | Carry::Apart(_) => None,
    };
    cx.env.stack.pop();
    let takes_turns = cx.view.nest.pingpong.is_some();
    if takes_turns {
        turns::begin_turn(cx, &ring)?;
    }
    // A wait at mbarriers is no barrier.
    let synchronised = ring.flow.plan.has_barrier();
    control::run_loop(cx, (digit, ring.at()), ring.span, synchronised, |cx| {
        step(cx, &ring, inner, prefetched.as_ref(), walk)
    })?;
    if takes_turns {
        turns::pass_turn(cx)?;
    }
    drain(cx, &ring)?;
    if takes_turns {
        turns::end_turn(cx, &ring);
    }
    Ok(())
}

/// A step of a ring.
fn step<'a>(
    cx: &mut Cx<'a>,
    ring: &Ring<'a>,
    inner: &Stmt,
    prefetched: Option<&RegisterPlan<'_>>,
    walk: Walk,
) -> Result<(), LowerError> {
    // Where registers are prefetched, the step before has waited.
    let position = if prefetched.is_none() { ring::await_stage(cx, &ring.flow) } else { None };
    let at = ring_stages::stand(cx, ring, position);
    match (&at.ahead, prefetched) {
        (None, _) => ring::reading(cx, ring, at.stage, |cx| walk(cx, inner))?,
        (Some(ahead), Some(registers)) => {
            registers::step_prefetching(cx, ring, (at.stage, ahead), registers, walk)?
        }
        (Some(ahead), None) => {
            let pieces = fill::begin_ahead(cx, ring, ahead)?;
            ring::reading(cx, ring, at.stage, |cx| walk(cx, inner))?;
            fill::land_ahead(cx, ahead, &pieces);
        }
    }
    if let (Some(channel), Some(position)) = (&ring.flow.mbarriers, position) {
        mbarriers::fence_reads(cx, &ring.flow);
        match &ring.flow.plan.in_flight {
            None => mbarriers::release(cx, channel, position[0]),
            Some(InFlight { values, steps }) => {
                cx.build.emit.stmt(kernel::Stmt::Async(Async::Commit));
                storage::await_products(cx, values, *steps)?;
                release_behind(cx, ring, channel, position[0], *steps);
            }
        }
        ring_stages::advance(cx, channel, position);
    }
    Ok(())
}

/// Gives the stage back that was read some steps ago, if there were so many.
fn release_behind<'a>(cx: &mut Cx<'a>, ring: &Ring<'a>, channel: &Mbarriers, stage: Atom, steps: u32) {
    let now = cx.env.stack.last().map(|b| cx.env.passed(b)).unwrap_or_default();
    let point = cx.build.emit.index(&now);
    let first = Atom::i32(i64::from(steps) * ring.stride());
    let behind = cx.build.emit.cmp(CmpOp::Ge, point, first);
    control::only_if(cx, Some(behind), |cx| {
        let before = ring_stages::stage_after(cx, channel, stage, -i64::from(steps));
        mbarriers::release(cx, channel, before);
    });
}

/// Behind the loop: waits for the copies of steps that there are not, and for the products of its last steps, whose stages
/// it gives back.
fn drain<'a>(cx: &mut Cx<'a>, ring: &Ring<'a>) -> Result<(), LowerError> {
    if ring.counter.is_some() && ring.flow.plan.full(cx.view.variant) == Full::Group {
        cx.build.emit.stmt(kernel::Stmt::WaitGroup(0));
    }
    let (Some(channel), Some(InFlight { values, steps })) = (&ring.flow.mbarriers, &ring.flow.plan.in_flight)
    else {
        return Ok(());
    };
    storage::await_products(cx, values, 0)?;
    let next = ring_stages::position(cx, channel)[0];
    for back in (1..=i64::from(*steps)).rev() {
        let exists = cx.build.emit.cmp(CmpOp::Lt, Atom::i32((back - 1) * ring.stride()), ring.span.length);
        control::only_if(cx, Some(exists), |cx| {
            let stage = ring_stages::stage_after(cx, channel, next, -back);
            mbarriers::release(cx, channel, stage);
        });
    }
    Ok(())
}
