//! Groups of the threads that compute, which take tiles in turn (ping-pong).
//!
//! ```text
//! group g of n, for its tiles t = cta + g·ctas, step n·ctas:
//!     cursor += g·steps                      // the stages of the tiles that others compute before this one
//!     await turn[g] parity                   // the group before has issued all of its products
//!     for k: await full[stage]; ..            // the pipeline of the tile
//!     arrive turn[g + 1 mod n]
//!     cursor += (n - 1 - g)·steps            // and after it
//!     store the tile                         // while the next group multiplies
//! ```
//! The steps of others' tiles are as many as the own ones, but for problems of a group, where they are asked for.
//! One producer fills the stages tile after tile. An mbarrier tells one phase from the next alone, so a group may wait for a
//! stage only when those before it are full: the turn sees to that. The first group finds its turn without a wait, as the
//! phase before the first counts as complete.
//! Source: CUTLASS, `KernelTmaWarpSpecializedPingpong`; PTX ISA 9.7.13.15.16 (`mbarrier.test_wait`, parity).

use super::{
    build::Holds,
    context::Cx,
    control,
    emit::{Atom, Op},
    error::LowerError,
    flow::{Mbarriers, Ring},
    mbarriers, ring_stages,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr},
    nest::{Digit, WARP},
    op::BinOp,
    shared::Content,
};

/// Buffer of the mbarriers by which turns are passed on, one a group.
fn turn_barriers(cx: &mut Cx<'_>) -> Result<u32, LowerError> {
    mbarriers::mbarrier_ring(cx, (Content::Turn, 0), cx.view.nest.groups(), cx.env.tile.units.threads / WARP)
}

/// Register that has the parity of this group's next turn.
fn turn_parity(cx: &mut Cx<'_>) -> u32 {
    cx.build.fragment(cx.view.nest, Holds::Turn, DType::I32, 1)
}

/// Before the first tile of a group.
pub(super) fn first_turn(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    if cx.view.nest.pingpong.is_some() {
        let value = Atom::i32(i64::from(cx.env.tile.group == 0)).expr();
        let frag = turn_parity(cx);
        cx.build.emit.stmt(kernel::Stmt::Set { frag, slot: 0, value });
    }
    Ok(())
}

/// This group goes on where those before it leave the channel, when they have.
pub(super) fn begin_turn(cx: &mut Cx<'_>, ring: &Ring<'_>) -> Result<(), LowerError> {
    skip(cx, ring, -i64::from(cx.env.tile.group));
    let barrier = turn_barriers(cx)?;
    let frag = turn_parity(cx);
    let parity = cx.build.emit.var(DType::I32);
    cx.build.emit.stmt(kernel::Stmt::Let(parity, KExpr::Slot { frag, slot: 0 }));
    let stage = Atom::i32(cx.env.tile.group.into()).expr();
    let wait = Async::Wait { barrier, stage, parity: KExpr::Var(parity) };
    cx.build.emit.stmt(kernel::Stmt::Async(wait));
    let turned = cx.build.emit.bin(BinOp::Sub, Atom::i32(1), Atom::Var(parity));
    cx.build.emit.stmt(kernel::Stmt::Set { frag, slot: 0, value: turned.expr() });
    Ok(())
}

/// The next group may begin.
pub(super) fn pass_turn(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let barrier = turn_barriers(cx)?;
    let next = (cx.env.tile.group + 1) % cx.view.nest.groups();
    mbarriers::arrive_as_warp(cx, barrier, Atom::i32(next.into()), 1);
    Ok(())
}

/// This group leaves out what others read of the channel until its next tile.
pub(super) fn end_turn(cx: &mut Cx<'_>, ring: &Ring<'_>) {
    skip(cx, ring, i64::from(cx.view.nest.groups() - 1 - cx.env.tile.group));
}

/// Moves on by the steps of so many tiles, those before the own one where they are less than none.
fn skip(cx: &mut Cx<'_>, ring: &Ring<'_>, tiles: i64) {
    let Some(channel) = &ring.flow.mbarriers else { return };
    let (Some(own), true) = (cx.env.tile.number, cx.view.given.grouped) else {
        if tiles != 0 {
            skip_steps(cx, channel, ring.digit, (ring.span.length, tiles.unsigned_abs()));
        }
        return;
    };
    // Others' tiles may be of problems with other extents. Beyond the last tile it is no matter what is found.
    let ctas = cx.build.emit.op(Op::Ctas, &[]);
    for tile in 1..=tiles.abs() {
        let apart = cx.build.emit.bin(BinOp::Mul, ctas, Atom::i32(tile * tiles.signum()));
        let tile = cx.build.emit.add(own, apart);
        cx.build.emit.push();
        let around = cx.build.emit.enter_problem(tile);
        let end = control::end(cx, ring.digit);
        skip_steps(cx, channel, ring.digit, (end, 1));
        cx.build.emit.leave_problem(around);
        let then = cx.build.emit.pop();
        let cond = Atom::Bool(true).expr();
        cx.build.emit.stmt(kernel::Stmt::If { cond, then, otherwise: Vec::new() });
    }
}

/// Moves on by the steps of a loop that ends there, so many times.
fn skip_steps(cx: &mut Cx<'_>, channel: &Mbarriers, digit: Digit, (end, times): (Atom, u64)) {
    let position = ring_stages::position(cx, channel);
    let stride = i64::from(digit.stride);
    let last = cx.build.emit.add(end, Atom::i32(stride - 1));
    let steps = cx.build.emit.bin(BinOp::Div, last, Atom::i32(stride));
    ring_stages::advance_by(cx, channel, position, (steps, times as i64));
}
