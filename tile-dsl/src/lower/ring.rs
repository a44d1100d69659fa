//! A channel opened at the current point, its stages awaited and read.

use super::{
    context::Cx,
    copy,
    emit::Atom,
    env::Bound,
    error::LowerError,
    flow::{Flow, Ring},
    limits,
    linear::Linear,
    mbarriers, moves, ring_stages,
};
use crate::{
    kernel,
    nest::{CopyId, Digit, LoopKind, Stmt},
    plan::{Channel, Full, Producer},
};

/// The channels of a loop with so many stages, whose copies `body` reads: one, or that of a value that is computed a step ahead and
/// the other.
pub(super) fn channels<'a>(
    cx: &Cx<'a>,
    pipeline: (Digit, u32),
    copies: &[CopyId],
    body: &Stmt,
) -> Result<&'a [Channel], LowerError> {
    let plan = cx.view.plan;
    match plan.channels.get(Some(pipeline), copies, body) {
        channels @ ([_] | [Channel { skewed: Some(_), .. }, _]) => Ok(channels),
        _ => {
            let axis = cx.view.axis_name(pipeline.0.axis);
            let text = format!("the copies in the pipeline over `{axis}` are not one channel");
            Err(LowerError::Malformed(text))
        }
    }
}

/// A channel in shared memory whose items are the steps of a loop.
pub(super) fn ring<'a>(
    cx: &mut Cx<'a>,
    digit: Digit,
    plan: &'a Channel,
    inner: &Stmt,
) -> Result<Ring<'a>, LowerError> {
    let span = limits::span(cx, digit)?;
    let at = LoopKind::Pipe(plan.stages);
    cx.env.stack.push(Bound::new(digit, at, Linear::default()));
    let flow = open(cx, plan, inner);
    cx.env.stack.pop();
    Ok(Ring { flow: flow?, digit, span, counter: None })
}

/// A channel in shared memory, whose stages the threads at hand are about to use.
pub(super) fn open<'a>(cx: &mut Cx<'a>, plan: &'a Channel, body: &Stmt) -> Result<Flow<'a>, LowerError> {
    let copies = plan.copies.iter().map(|copy| moves::plan(cx, *copy, body, plan.stages));
    let copies = copies.collect::<Result<Vec<_>, _>>()?;
    let mbarriers = match plan.full(cx.view.variant) {
        Full::Program | Full::Barrier | Full::Group => None,
        Full::Mbarrier => Some(mbarriers::mbarriers(cx, plan, &copies)?),
    };
    for copy in &copies {
        match plan.producer {
            Producer::Each | Producer::All => cx.build.write_shared(copy.buffer),
            Producer::One => mbarriers::fill_shared(cx, copy.buffer),
            Producer::Role(_) => {}
        }
    }
    Ok(Flow { plan, copies, mbarriers })
}

/// Waits until the next stage is full and everyone has left the one before; `body` reads it. Of a channel with mbarriers, its stage
/// and parity.
pub(super) fn await_stage(cx: &mut Cx<'_>, flow: &Flow<'_>) -> Option<[Atom; 2]> {
    let position = flow.mbarriers.as_ref().map(|channel| {
        let [stage, parity] = ring_stages::position(cx, channel);
        let position = [if flow.plan.stages == 1 { Atom::i32(0) } else { stage }, parity];
        mbarriers::await_full(cx, channel, &flow.copies, position);
        position
    });
    match flow.plan.full(cx.view.variant) {
        Full::Group => cx.build.emit.stmt(kernel::Stmt::WaitGroup(flow.plan.groups_ahead())),
        Full::Program | Full::Barrier | Full::Mbarrier => {}
    }
    mbarriers::fence_stores(cx, flow);
    if flow.plan.has_barrier() {
        cx.build.barrier();
    }
    position
}

/// What `f` reads of a ring's copies comes from a stage.
pub(super) fn reading<'a, R>(
    cx: &mut Cx<'a>,
    ring: &Ring<'a>,
    stage: Atom,
    f: impl FnOnce(&mut Cx<'a>) -> R,
) -> R {
    let outside = cx.env.stages.len();
    for plan in &ring.flow.copies {
        let from = copy::stage_at(cx, plan, stage);
        cx.env.stages.push(plan.active(from));
    }
    let result = f(cx);
    cx.env.stages.truncate(outside);
    result
}
