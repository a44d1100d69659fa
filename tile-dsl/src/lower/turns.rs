//! Groups of the threads that compute, which take tiles in turn (ping-pong).
//!
//! ```text
//! group g of n, for its tiles t = cta + g·ctas, step n·ctas:
//!     cursor += g·steps                      // the slots of the tiles that others compute before this one
//!     await turn[g] parity                   // the group before has issued all of its products
//!     for k: await full[slot]; ..            // the pipeline of the tile
//!     arrive turn[g + 1 mod n]
//!     cursor += (n - 1 - g)·steps            // and after it
//!     store the tile                         // while the next group multiplies
//! ```
//! The steps of others' tiles are as many as the own ones, but for problems of a group, where they are asked for.
//! One producer fills the slots tile after tile. An mbarrier tells one phase from the next alone, so a group may wait for a
//! slot only when those before it are full: the turn sees to that. The first group finds its turn without a wait, as the
//! phase before the first counts as complete.
//! Source: CUTLASS, `KernelTmaWarpSpecializedPingpong`; PTX ISA 9.7.13.15.16 (`mbarrier.test_wait`, parity).

use super::{
    Holds, Lowerer,
    emit::{Atom, Op},
    error::LowerError,
    mbarriers::Mbarriers,
    pipeline::Ring,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr},
    nest::{Digit, WARP},
    op::BinOp,
    shared::Content,
};

impl Lowerer<'_> {
    /// Buffer of the mbarriers by which turns are passed on, one a group.
    fn turn_barriers(&mut self) -> Result<u32, LowerError> {
        self.mbarrier_ring(Content::Turn, self.nest.groups(), self.units.threads / WARP)
    }

    /// Register that has the parity of this group's next turn.
    fn turn_parity(&mut self) -> u32 {
        self.fragment(Holds::Turn, DType::I32, 1)
    }

    /// Before the first tile of a group.
    pub fn first_turn(&mut self) -> Result<(), LowerError> {
        if self.nest.pingpong.is_some() {
            let value = Atom::i32(i64::from(self.group == 0)).expr();
            let frag = self.turn_parity();
            self.emit.stmt(kernel::Stmt::Set { frag, slot: 0, value });
        }
        Ok(())
    }

    /// This group goes on where those before it leave the channel, when they have.
    pub fn begin_turn(&mut self, ring: &Ring<'_>) -> Result<(), LowerError> {
        self.skip(ring, -i64::from(self.group));
        let barrier = self.turn_barriers()?;
        let frag = self.turn_parity();
        let parity = self.emit.var(kernel::Ty::I32);
        self.emit.stmt(kernel::Stmt::Let(parity, KExpr::Slot { frag, slot: 0 }));
        let slot = Atom::i32(self.group.into()).expr();
        let wait = Async::Wait { barrier, slot, parity: KExpr::Var(parity) };
        self.emit.stmt(kernel::Stmt::Async(wait));
        let turned = self.emit.bin(BinOp::Sub, Atom::i32(1), Atom::Var(parity));
        self.emit.stmt(kernel::Stmt::Set { frag, slot: 0, value: turned.expr() });
        Ok(())
    }

    /// The next group may begin.
    pub fn pass_turn(&mut self) -> Result<(), LowerError> {
        let barrier = self.turn_barriers()?;
        let next = (self.group + 1) % self.nest.groups();
        self.arrive_as_warp(barrier, Atom::i32(next.into()), 1);
        Ok(())
    }

    /// This group leaves out what others read of the channel until its next tile.
    pub fn end_turn(&mut self, ring: &Ring<'_>) {
        self.skip(ring, i64::from(self.nest.groups() - 1 - self.group));
    }

    /// Moves on by the steps of so many tiles, those before the own one where they are less than none.
    fn skip(&mut self, ring: &Ring<'_>, tiles: i64) {
        let Some(channel) = &ring.flow.mbarriers else { return };
        let (Some(own), true) = (self.number, self.grouped) else {
            if tiles != 0 {
                self.skip_steps(channel, ring.digit, (ring.end, tiles.unsigned_abs()));
            }
            return;
        };
        // Others' tiles may be of problems with other extents. Beyond the last tile it is no matter what is found.
        let ctas = self.emit.op(Op::Ctas, &[]);
        for tile in 1..=tiles.abs() {
            let apart = self.emit.bin(BinOp::Mul, ctas, Atom::i32(tile * tiles.signum()));
            let tile = self.emit.add(own, apart);
            self.emit.push();
            let around = self.emit.enter_problem(tile);
            let end = self.end(ring.digit);
            self.skip_steps(channel, ring.digit, (end, 1));
            self.emit.leave_problem(around);
            let then = self.emit.pop();
            let cond = Atom::Bool(true).expr();
            self.emit.stmt(kernel::Stmt::If { cond, then, otherwise: Vec::new() });
        }
    }

    /// Moves on by the steps of a loop that ends there, so many times.
    fn skip_steps(&mut self, channel: &Mbarriers, digit: Digit, (end, times): (Atom, u64)) {
        let position = self.position(channel);
        let stride = i64::from(digit.stride);
        let last = self.emit.add(end, Atom::i32(stride - 1));
        let steps = self.emit.bin(BinOp::Div, last, Atom::i32(stride));
        self.advance_by(channel, position, (steps, times as i64));
    }
}
