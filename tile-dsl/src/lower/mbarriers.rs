//! The mbarriers of a channel of tensor copies: one a stage says when it is full, and, where others than its readers fill it,
//! one that says when it is free.
//!
//! ```text
//! fill(stage):   expect bytes full[stage]; a box, or this CTA's part of it for all of its cluster, completes full[stage]
//! await full:   full[stage] parity          advance: stage + 1 mod n, parity turned behind the last
//! ```
//! Stage and parity are counted by [`super::ring_stages`], so that a loop that is entered again goes on where it left off. What
//! happens in which order is [`super::pipeline`]'s, and the producer's [`super::roles`].
//! Threads that read the stage by ordinary loads fence before others may fill it: the copy writes through the
//! asynchronous proxy. Threads that fill it by ordinary stores fence before products read it, which do so by that proxy.

use super::{
    build::{Barriers, Holds},
    context::Cx,
    copy,
    emit::{Atom, Op, linear},
    error::LowerError,
    flow::Flow,
    flow::{CopyPlan, Mbarriers},
    linear::Linear,
    looked_up,
    lowering::Lowering,
    moves, ring_stages,
    sync::Touch,
    tensor_map,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr},
    machine::Unit,
    nest::WARP,
    op::{BinOp, CmpOp},
    plan::{Channel, Producer},
    shared::Content,
};

/// Those of a channel, whose copies all come by tensor maps.
pub(super) fn mbarriers(
    cx: &mut Cx<'_>,
    plan: &Channel,
    copies: &[CopyPlan<'_>],
) -> Result<Mbarriers, LowerError> {
    let (depth, arrive) = (plan.stages, plan.arrive);
    let (ring, number) = (plan.ring, plan.number);
    let full = mbarrier_ring(cx, (Content::Full(ring), number), depth, 1)?;
    let cursor = cx.build.fragment(cx.view.nest, Holds::Cursor(ring), DType::I32, 2);
    if !cx.build.cursors.contains(&cursor) {
        cx.build.cursors.push(cursor);
    }
    let empty = match plan.producer {
        Producer::Role(_) => {
            let each = if arrive == Unit::Thread {
                cx.env.tile.units.threads
            } else {
                cx.env.tile.units.threads / WARP
            };
            let arrivals = each * cx.view.nest.copying_ctas();
            Some(mbarrier_ring(cx, (Content::Empty(ring), number), depth, arrivals)?)
        }
        Producer::Each | Producer::All | Producer::One => None,
    };
    let bytes = copies.iter().map(|plan| plan.of.bytes(plan.size, plan.dtype)).sum();
    Ok(Mbarriers { depth, full, empty, arrive, cursor, bytes })
}

/// Buffer of so many mbarriers, each a word of 64 bits.
pub(super) fn mbarrier_ring(
    cx: &mut Cx<'_>,
    (content, number): (Content, usize),
    stages: u32,
    arrivals: u32,
) -> Result<u32, LowerError> {
    let buffer = cx.view.shared_buffer(content, number)?;
    if !cx.build.barriers.iter().any(|b| b.buffer == buffer) {
        cx.build.barriers.push(Barriers { buffer, stages, arrivals });
    }
    Ok(buffer)
}

/// Copies the boxes of the current point to a stage; one thread does. It looks up the values that move a box.
pub(super) fn fill(
    cx: &mut Cx<'_>,
    channel: &Mbarriers,
    copies: &[CopyPlan<'_>],
    stage: Atom,
) -> Result<(), LowerError> {
    let (barrier, bytes) = (channel.full, Some(channel.bytes));
    let arrive = Async::Arrive { barrier, stage: stage.expr(), bytes, cta: None };
    cx.build.emit.stmt(kernel::Stmt::Async(arrive));
    for plan in copies {
        let Some(map) = plan.map else { continue };
        let mut to = if channel.depth > 1 { copy::stage_at(cx, plan, stage) } else { Linear::default() };
        let mut base = looked_up::moved(cx, plan, moves::base(cx, plan))?;
        if let Some(part) = plan.of.part {
            let rank = rank(cx);
            base[part.dim].add_scaled(&rank, part.by as i64);
            to.add_scaled(&rank, part.elems as i64);
        }
        for piece in 0..plan.of.part.map_or_else(|| plan.of.pieces(plan.size), |p| p.pieces) {
            let (coordinates, offset) = tensor_map::panel(cx, &plan.of.layout, &base, &to, piece);
            let (shared, stage, everywhere) = (plan.buffer, stage.expr(), plan.of.part.is_some());
            let copy = Async::Copy { map, shared, offset, coordinates, barrier, stage, everywhere };
            cx.build.emit.stmt(kernel::Stmt::Async(copy));
        }
    }
    Ok(())
}

/// Fills the next stage of a channel, once it is free.
pub(super) fn fill_next(cx: &mut Cx<'_>, flow: &Flow<'_>) -> Result<(), LowerError> {
    let Some(channel) = &flow.mbarriers else { return Ok(()) };
    let position = ring_stages::position(cx, channel);
    let [stage, parity] = position;
    // The first time round, nobody has read what would be overwritten.
    let parity = cx.build.emit.bin(BinOp::Sub, Atom::i32(1), parity);
    let barrier = channel.empty.unwrap_or_default();
    let wait = Async::Wait { barrier, stage: stage.expr(), parity: parity.expr() };
    cx.build.emit.stmt(kernel::Stmt::Async(wait));
    fill(cx, channel, &flow.copies, stage)?;
    ring_stages::advance(cx, channel, position);
    Ok(())
}

/// What one thread does.
pub(super) fn one<'a, R>(cx: &mut Cx<'a>, body: impl FnOnce(&mut Cx<'a>) -> R) -> R {
    cx.build.emit.push();
    let result = body(cx);
    let body = cx.build.emit.pop();
    cx.build.emit.stmt(kernel::Stmt::One { thread: cx.env.tile.units.first, body });
    result
}

/// About to have a copy fill a shared buffer; who reads it waits for the copy.
pub(super) fn fill_shared(cx: &mut Cx<'_>, buffer: u32) {
    if cx.build.sync.fill(Touch::shared(buffer), cx.build.sync.depth()) {
        cx.build.emit_barrier();
    }
    cx.build.emit.forget_loads(|mem| mem == kernel::Mem::Shared(buffer));
}

/// Waits until a stage is full.
pub(super) fn await_full(
    cx: &mut Cx<'_>,
    channel: &Mbarriers,
    copies: &[CopyPlan<'_>],
    [stage, parity]: [Atom; 2],
) {
    let wait = Async::Wait { barrier: channel.full, stage: stage.expr(), parity: parity.expr() };
    cx.build.emit.stmt(kernel::Stmt::Async(wait));
    cx.build.emit.forget_loads(|mem| copies.iter().any(|p| mem == kernel::Mem::Shared(p.buffer)));
}

/// What threads have read of a stage is read before a copy fills it again.
pub(super) fn fence_reads(cx: &mut Cx<'_>, flow: &Flow<'_>) {
    if flow.plan.fences_reads {
        cx.build.emit.stmt(kernel::Stmt::Async(Async::ProxyFence));
    }
}

/// What threads have stored into a stage is seen by asynchronous MMA that reads it.
pub(super) fn fence_stores(cx: &mut Cx<'_>, flow: &Flow<'_>) {
    if flow.plan.fences_stores {
        cx.build.emit.stmt(kernel::Stmt::Async(Async::ProxyFence));
    }
}

/// Initialises the mbarriers of a kernel, and the registers that count their stages.
pub(super) fn initialise(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let others = lowering.nest().cluster.is_some() && !lowering.nest().cluster_reduces();
    let Lowering { barriers, cursors, kernel, .. } = lowering;
    if barriers.is_empty() {
        return Ok(());
    }
    let init = |b: &Barriers| {
        let Barriers { buffer: barrier, stages, arrivals } = *b;
        kernel::Stmt::Async(Async::Init { barrier, stages, arrivals })
    };
    let mut first: Vec<kernel::Stmt> = barriers.iter().map(init).collect();
    // Other CTAs of a cluster arrive there, too.
    first.push(if others { kernel::Stmt::ClusterBarrier } else { kernel::Stmt::Barrier });
    let zero =
        |frag: u32| [0, 1].map(|slot| kernel::Stmt::Set { frag, slot, value: KExpr::Int(0, DType::I32) });
    first.extend(cursors.iter().flat_map(|frag| zero(*frag)));
    kernel.body.splice(0..0, first);
    Ok(())
}

/// Number of this CTA in its cluster.
pub(super) fn rank(cx: &mut Cx<'_>) -> Linear {
    let cta = cx.build.emit.op(Op::Cta, &[]);
    let rank = cx.build.emit.bin(BinOp::Rem, cta, Atom::i32(cx.view.nest.cluster_ctas().into()));
    linear(rank, 0)
}

/// This warp, or each of its threads, has read a stage. In a cluster, others copy to this CTA, too: each of them is told.
pub(super) fn release(cx: &mut Cx<'_>, channel: &Mbarriers, stage: Atom) {
    let Some(barrier) = channel.empty else { return };
    let ctas = cx.view.nest.copying_ctas();
    if channel.arrive == Unit::Thread {
        for cta in 0..ctas {
            let cta = (ctas > 1).then(|| Atom::i32(cta.into()).expr());
            let arrive = Async::Arrive { barrier, stage: stage.expr(), bytes: None, cta };
            cx.build.emit.stmt(kernel::Stmt::Async(arrive));
        }
        return;
    }
    arrive_as_warp(cx, barrier, stage, ctas);
}

/// Behind a barrier of this warp, one of its lanes arrives at an mbarrier; one for each CTA of a cluster.
pub(super) fn arrive_as_warp(cx: &mut Cx<'_>, barrier: u32, stage: Atom, ctas: u32) {
    cx.build.emit.stmt(kernel::Stmt::WarpBarrier);
    let tid = cx.build.emit.op(Op::Tid, &[]);
    let lane = cx.build.emit.bin(BinOp::Rem, tid, Atom::i32(WARP.into()));
    let first = match ctas {
        1 => cx.build.emit.cmp(CmpOp::Eq, lane, Atom::i32(0)),
        ctas => cx.build.emit.cmp(CmpOp::Lt, lane, Atom::i32(ctas.into())),
    };
    let cta = (ctas > 1).then(|| lane.expr());
    let arrive = kernel::Stmt::Async(Async::Arrive { barrier, stage: stage.expr(), bytes: None, cta });
    cx.build.emit.stmt(kernel::Stmt::If { cond: first.expr(), then: vec![arrive], otherwise: vec![] });
}
