//! Filling the stages of a channel: at once, or ahead, while another is read.
//!
//! ```text
//! fill ahead = begin: asynchronous copies go to their stage, plain ones to registers; commit
//!              land:  plain ones are stored, behind the computation
//! ```
//! A step makes both in place, or takes them as units that stay together to spread them over its computation
//! ([`super::interleave`]): what is begun, asynchronous copies last and in one unit, and what lands, store by store.

use super::{
    build::Holds,
    context::Cx,
    control,
    copy::{self, Chunk},
    emit::{Atom, linear},
    error::LowerError,
    flow::{CopyPlan, Flow, Ring},
    interleave::Units,
    linear::Linear,
    mbarriers,
    ring_stages::{self, Ahead},
};
use crate::{
    kernel::{self, Expr as KExpr},
    op::CmpOp,
    plan::{Full, Producer},
};

/// A part of a copy that is filled ahead.
pub(super) enum Piece<'p> {
    /// Asynchronous copies.
    Issued { plan: &'p CopyPlan<'p>, chunks: Vec<Chunk> },
    /// A vector that passes through registers, from a register of a fragment on.
    Loaded { plan: &'p CopyPlan<'p>, chunk: Chunk, frag: u32, first: u32 },
}

/// What those who fill a channel do.
fn filling<'a, R>(cx: &mut Cx<'a>, flow: &Flow<'_>, body: impl FnOnce(&mut Cx<'a>) -> R) -> R {
    match flow.plan.producer {
        Producer::One => mbarriers::one(cx, body),
        Producer::Each | Producer::All | Producer::Role(_) => body(cx),
    }
}

/// Copies an item at the current point to a stage.
fn fill_stage(cx: &mut Cx<'_>, flow: &Flow<'_>, stage: Atom) -> Result<(), LowerError> {
    match &flow.mbarriers {
        Some(channel) => mbarriers::fill(cx, channel, &flow.copies, stage),
        None => {
            let copies: Vec<_> = flow.copies.iter().map(|p| (p, copy::stage_at(cx, p, stage))).collect();
            copy::copy_all(cx, &copies)
        }
    }
}

fn commit(cx: &mut Cx<'_>, flow: &Flow<'_>) {
    if flow.plan.full(cx.view.variant) == Full::Group {
        cx.build.emit.stmt(kernel::Stmt::CommitGroup);
    }
}

/// Fills the stage of a channel that has one.
pub(super) fn fill_once(cx: &mut Cx<'_>, flow: &Flow<'_>) -> Result<(), LowerError> {
    filling(cx, flow, |cx| fill_stage(cx, flow, Atom::i32(0)))?;
    commit(cx, flow);
    Ok(())
}

/// Fills the first stages of a ring.
pub(super) fn prologue(cx: &mut Cx<'_>, ring: &Ring<'_>) -> Result<(), LowerError> {
    let flow = &ring.flow;
    let first = flow.mbarriers.as_ref().map(|channel| ring_stages::position(cx, channel)[0]);
    filling(cx, flow, |cx| {
        for step in 0..i64::from(flow.plan.ahead()) {
            let point = step * ring.stride();
            let exists = cx.build.emit.cmp(CmpOp::Lt, Atom::i32(point), ring.span.length);
            ring_stages::at_point(cx, ring, ring.span.point(&Linear::constant(point)), |cx| {
                control::only_if(cx, Some(exists), |cx| {
                    let stage = match (&flow.mbarriers, first) {
                        (Some(channel), Some(first)) => ring_stages::stage_after(cx, channel, first, step),
                        _ => Atom::i32(step),
                    };
                    fill_stage(cx, flow, stage)
                })
            })?;
            commit(cx, flow);
        }
        Ok(())
    })
}

/// Begins to fill the stage that everyone has left; what is to land.
pub(super) fn begin_ahead<'p>(
    cx: &mut Cx<'_>,
    ring: &'p Ring<'_>,
    ahead: &Ahead,
) -> Result<Vec<Piece<'p>>, LowerError> {
    let flow = &ring.flow;
    let mut pieces = Vec::new();
    ring_stages::at_point(cx, ring, linear(ahead.point, 0), |cx| match &flow.mbarriers {
        Some(channel) => filling(cx, flow, |cx| {
            control::only_if(cx, ahead.exists, |cx| mbarriers::fill(cx, channel, &flow.copies, ahead.stage))
        }),
        None => {
            control::only_if(cx, ahead.exists, |cx| {
                for plan in &flow.copies {
                    for piece in pieces_of(cx, plan) {
                        begin(cx, &piece, ahead.stage)?;
                        pieces.push(piece);
                    }
                }
                Ok(())
            })?;
            commit(cx, flow);
            Ok(())
        }
    })?;
    pieces.retain(|piece| matches!(piece, Piece::Loaded { .. }));
    Ok(pieces)
}

/// Plain copies land after the computation, in the stage that nobody reads now.
pub(super) fn land_ahead(cx: &mut Cx<'_>, ahead: &Ahead, pieces: &[Piece<'_>]) {
    if !pieces.is_empty() {
        control::only_if(cx, ahead.exists, |cx| pieces.iter().for_each(|piece| land(cx, piece, ahead.stage)));
    }
}

/// The same in units: what begins and what lands. Addresses of what lands are worked out here.
pub(super) fn units_ahead(cx: &mut Cx<'_>, ring: &Ring<'_>, ahead: &Ahead) -> Result<[Units; 2], LowerError> {
    let flow = &ring.flow;
    let (plain, asynchronous): (Vec<_>, Vec<_>) = flow.copies.iter().partition(|p| !p.asynchronous);
    ring_stages::at_point(cx, ring, linear(ahead.point, 0), |cx| {
        let (mut begun, mut landing) = (Units::new(), Units::new());
        // They have two ways to go.
        for plan in plain {
            for piece in pieces_of(cx, plan) {
                begun.push(control::captured(cx, |cx| begin(cx, &piece, ahead.stage))?);
                let stores = control::captured(cx, |cx| {
                    land(cx, &piece, ahead.stage);
                    Ok::<(), LowerError>(())
                })?;
                let (addresses, stores): (Vec<_>, Vec<_>) =
                    stores.into_iter().partition(|s| matches!(s, kernel::Stmt::Let(..)));
                control::emit_all(cx, addresses);
                landing.extend(stores.into_iter().map(|s| vec![s]));
            }
        }
        // In one piece: ptxas waits for shared loads in flight before each run of asynchronous copies.
        if !asynchronous.is_empty() {
            begun.push(control::captured(cx, |cx| {
                for plan in asynchronous {
                    let pieces = pieces_of(cx, plan);
                    pieces.iter().try_for_each(|piece| begin(cx, piece, ahead.stage))?;
                }
                commit(cx, flow);
                Ok(())
            })?);
        }
        Ok([begun, landing])
    })
}

fn pieces_of<'p>(cx: &mut Cx<'_>, plan: &'p CopyPlan<'p>) -> Vec<Piece<'p>> {
    let chunks = copy::chunks(cx, plan);
    if plan.asynchronous {
        return vec![Piece::Issued { plan, chunks }];
    }
    let slots = chunks.len() as u32 * plan.vector;
    let frag = cx.build.fragment(cx.view.nest, Holds::Next(plan.of.copy, slots), plan.dtype, slots);
    let loaded = |(n, chunk)| Piece::Loaded { plan, chunk, frag, first: n * plan.vector };
    (0..).zip(chunks).map(loaded).collect()
}

fn begin(cx: &mut Cx<'_>, piece: &Piece<'_>, stage: Atom) -> Result<(), LowerError> {
    match piece {
        Piece::Issued { plan, chunks } => {
            let to = copy::stage_at(cx, plan, stage);
            copy::issue(cx, plan, chunks, &to)
        }
        Piece::Loaded { plan, chunk, frag, first } => {
            for (slot, var) in (*first..).zip(copy::load_chunk(cx, plan, chunk)?) {
                cx.build.emit.stmt(kernel::Stmt::Set { frag: *frag, slot, value: KExpr::Var(var) });
            }
            Ok(())
        }
    }
}

fn land(cx: &mut Cx<'_>, piece: &Piece<'_>, stage: Atom) {
    let Piece::Loaded { plan, chunk, frag, first } = piece else { return };
    let to = copy::stage_at(cx, plan, stage);
    let slots = *first..first + plan.vector;
    let values = slots.map(|slot| KExpr::Slot { frag: *frag, slot }).collect();
    copy::store_chunk(cx, plan, chunk, values, &to);
}
