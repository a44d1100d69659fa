//! A pipeline of registers carried across the steps of the ring around it.
//!
//! Where [`Carry`](crate::nest::Carry) admits it, the loop that reads a ring's slots does not run empty at the
//! end of each step of the ring: its last step loads the first registers of the next slot. The ring's one wait and
//! barrier a step stand before that last step, and nothing else waits.
//!
//! ```text
//! fill the ring's slots but one; wait; barrier; load fragment 0 of slot 0
//! for t: for s in 0..S-1: load fragment s + 1 of slot t while computing on fragment s;
//!                         in the first steps, copy(t + n - 1) → slot (t - 1) mod n, plain copies to registers; commit
//!                         in the later steps, store the plain copies of t + n - 1
//!        wait n-2; barrier                          // slot t + 1 is complete, everyone has left slot t
//!        load fragment 0 of slot t + 1 while computing on fragment S - 1
//! ```
//! All of this is one straight line, so the copies are spread over the computation, too. Near the end nothing is
//! skipped: the last steps copy a tile again that nobody reads, and the last fragment, which nobody reads, comes from
//! the slot at hand.

use super::{
    Holds, Lowerer,
    channels::Full,
    copy::linear,
    digits::Bound,
    emit::{Atom, Op},
    error::LowerError,
    fragment::FragmentPlan,
    interleave::Among,
    linear::Linear,
    pipeline::Ring,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Ty},
    nest::{CARRIED_SETS, Carried, Fraction, Interleave, LoopKind},
    op::CmpOp,
};

impl Lowerer<'_> {
    /// The ring's loop with a carried pipeline inside; its slots but one are filled.
    pub fn carried_ring(&mut self, ring: &Ring<'_>, carried: &Carried<'_>) -> Result<(), LowerError> {
        let (digit, at) = (ring.digit, ring.at());
        self.await_slot(&ring.flow, carried.inner);
        self.stack.push(Bound { digit, at, value: Linear::default() });
        self.enter(ring, carried, Atom::i32(0));
        let fragments = self.fragment_plans(&carried.copies, carried.inner, CARRIED_SETS)?;
        let exists = self.emit.cmp(CmpOp::Lt, Atom::i32(0), ring.end);
        self.emit.push();
        let units = self.load_fragments(&fragments, 0)?;
        self.emit_all(units.into_iter().flatten());
        let then = self.emit.pop();
        self.emit.stmt(kernel::Stmt::If { cond: exists.expr(), then, otherwise: vec![] });
        self.leave(ring, carried);
        self.stack.pop();
        let counter = self.fragment(Holds::Slot(digit), DType::I32, 1);
        self.emit.stmt(kernel::Stmt::Set { frag: counter, slot: 0, value: KExpr::Int(0, Ty::I32) });
        self.run_loop(digit, at, true, |this| this.carried_step(ring, carried, &fragments, counter))?;
        if ring.flow.plan.full == Full::Group {
            self.emit.stmt(kernel::Stmt::WaitGroup(0));
        }
        Ok(())
    }

    /// Stands where the carried pipeline does, reading a slot of the ring.
    fn enter(&mut self, ring: &Ring<'_>, carried: &Carried<'_>, slot: Atom) {
        self.read_slot(ring, slot);
        for (digit, at) in &carried.units {
            let LoopKind::Unit(unit, dim) = at else { continue };
            let value = self.unit_value(*unit, *dim, *digit);
            self.stack.push(Bound { digit: *digit, at: *at, value });
        }
        self.stack.push(Bound { digit: carried.digit, at: LoopKind::Unroll, value: Linear::default() });
    }

    fn leave(&mut self, ring: &Ring<'_>, carried: &Carried<'_>) {
        self.stack.truncate(self.stack.len() - carried.units.len() - 1);
        self.stages.truncate(self.stages.len() - ring.flow.copies.len());
    }

    fn carried_step(
        &mut self,
        ring: &Ring<'_>,
        carried: &Carried<'_>,
        fragments: &[FragmentPlan<'_>],
        counter: u32,
    ) -> Result<(), LowerError> {
        let at = self.advance_slot(ring, counter);
        let (steps, digit) = (carried.steps, carried.digit);
        let Ahead { issue, land } = self.copy_ahead(ring, &at);
        let Interleave { copies, stores, .. } = self.nest.interleave(digit);
        let part = |of: Fraction| of.floor(steps as usize) as u32;
        // The wait and the barrier stand before the last step: all are issued and stored by then.
        let window = Window { first: 0, end: part(copies).clamp(1, steps - 1) };
        let late = Window { first: part(stores).min(steps - 2), end: steps - 1 };
        let outside = self.stack.len() - 1;
        self.enter(ring, carried, at.slot);
        for step in 0..steps {
            let early = if step + 1 == steps {
                self.await_slot(&ring.flow, carried.inner);
                self.leave(ring, carried);
                // What is not in the ring's slots moves with its loop.
                self.stack[outside].value = linear(at.following, 0);
                self.enter(ring, carried, at.follow);
                let units = self.load_fragments(fragments, 0)?;
                self.leave(ring, carried);
                self.stack[outside].value = at.now.clone();
                self.enter(ring, carried, at.slot);
                units
            } else {
                self.load_step(fragments, digit, step + 1, (step + 1) % CARRIED_SETS)?
            };
            let even = [window.share(step, &issue), late.share(step, &land)].concat();
            let among = Among { early, even };
            self.register_step(fragments, (digit, step, step % CARRIED_SETS), carried.inner, among)?;
        }
        self.leave(ring, carried);
        Ok(())
    }

    /// Where this step of the ring stands. The slot is counted in a register: a remainder by the depth would cost more.
    fn advance_slot(&mut self, ring: &Ring<'_>, counter: u32) -> Position {
        let (stride, depth) = (i64::from(ring.digit.stride), i64::from(ring.flow.plan.slots));
        let now = self.stack.last().expect("the ring's loop").value.clone();
        let point = self.emit.index(&now);
        let copied = self.within_end(ring, point, (depth - 1) * stride, point);
        let slot = self.emit.var(Ty::I32);
        self.emit.stmt(kernel::Stmt::Let(slot, KExpr::Slot { frag: counter, slot: 0 }));
        let slot = Atom::Var(slot);
        let wrapped = |this: &mut Self, edge: i64, to: i64, step: i64| {
            let at_edge = this.emit.cmp(CmpOp::Eq, slot, Atom::i32(edge));
            let moved = this.emit.add(slot, Atom::i32(step));
            this.emit.op(Op::Select, &[at_edge, Atom::i32(to), moved])
        };
        let next = wrapped(self, depth - 1, 0, 1);
        let free = wrapped(self, 0, depth - 1, -1);
        self.emit.stmt(kernel::Stmt::Set { frag: counter, slot: 0, value: next.expr() });
        let ahead = self.emit.add(point, Atom::i32(stride));
        let exists = self.emit.cmp(CmpOp::Lt, ahead, ring.end);
        let follow = self.emit.op(Op::Select, &[exists, next, slot]);
        let following = self.within_end(ring, point, stride, point);
        Position { now, copied, following, slot, follow, free }
    }

    /// `point + step` if that is below the ring's end, else `otherwise`; both are steps of the ring.
    fn within_end(&mut self, ring: &Ring<'_>, point: Atom, step: i64, otherwise: Atom) -> Atom {
        let next = self.emit.add(point, Atom::i32(step));
        let exists = self.emit.cmp(CmpOp::Lt, next, ring.end);
        let chosen = self.emit.op(Op::Select, &[exists, next, otherwise]);
        if let Atom::Var(var) = chosen {
            self.emit.set_multiple(var, ring.digit.stride.into());
        }
        chosen
    }

    /// The copies for the slot that everyone has left.
    fn copy_ahead(&mut self, ring: &Ring<'_>, at: &Position) -> Ahead {
        let top = self.stack.len() - 1;
        self.stack[top].value = linear(at.copied, 0);
        let mut ahead = Ahead { issue: Vec::new(), land: Vec::new() };
        // Plain ones first: they have two ways to go.
        let (plain, asynchronous): (Vec<_>, Vec<_>) =
            ring.flow.copies.iter().copied().partition(|p| !p.asynchronous);
        for plan in plain {
            let chunks = self.chunks(plan);
            let frag = self.fragment(Holds::Next(plan.copy), plan.dtype, chunks.len() as u32 * plan.vector);
            for (n, chunk) in (0..).zip(&chunks) {
                let slots = n * plan.vector..(n + 1) * plan.vector;
                let unit = self.captured(|this| {
                    let loaded = this.load_chunk(plan, chunk);
                    for (slot, var) in slots.clone().zip(loaded) {
                        this.emit.stmt(kernel::Stmt::Set { frag, slot, value: KExpr::Var(var) });
                    }
                });
                ahead.issue.push(unit);
                let to = self.slot_at(plan, at.free);
                let values = slots.map(|slot| KExpr::Slot { frag, slot }).collect();
                let stores = self.captured(|this| this.store_chunk(plan, chunk, values, &to));
                let (addresses, stores): (Vec<_>, Vec<_>) =
                    stores.into_iter().partition(|s| matches!(s, kernel::Stmt::Let(..)));
                self.emit_all(addresses);
                ahead.land.extend(stores.into_iter().map(|s| vec![s]));
            }
        }
        // In one piece: ptxas waits for shared loads in flight before each run of asynchronous copies.
        if !asynchronous.is_empty() {
            let unit = self.captured(|this| {
                for plan in &asynchronous {
                    let to = this.slot_at(plan, at.free);
                    let chunks = this.chunks(plan);
                    this.issue(plan, &chunks, &to);
                }
                this.emit.stmt(kernel::Stmt::CommitGroup);
            });
            ahead.issue.push(unit);
        }
        self.stack[top].value = at.now.clone();
        ahead
    }
}

/// Copies of a ring, in units to spread over a computation.
struct Ahead {
    /// The loads of plain copies, then the asynchronous ones.
    issue: Vec<Vec<kernel::Stmt>>,
    /// The stores of plain ones.
    land: Vec<Vec<kernel::Stmt>>,
}

/// Where a step of the ring stands.
struct Position {
    now: Linear,
    /// The point whose copies are issued; this point again where that lies beyond the end.
    copied: Atom,
    /// The next step's point; in the last step, this step's.
    following: Atom,
    /// The slot that this step reads.
    slot: Atom,
    /// The slot that the next step reads; in the last step, this step's.
    follow: Atom,
    /// The slot that the copies go to.
    free: Atom,
}

/// Steps of the carried pipeline over which something is spread.
struct Window {
    first: u32,
    end: u32,
}

impl Window {
    /// The share of one step.
    fn share<T: Clone>(&self, step: u32, all: &[T]) -> Vec<T> {
        if !(self.first..self.end).contains(&step) {
            return Vec::new();
        }
        let done = |step: u32| all.len() * (step - self.first) as usize / (self.end - self.first) as usize;
        all[done(step)..done(step + 1)].to_vec()
    }
}
