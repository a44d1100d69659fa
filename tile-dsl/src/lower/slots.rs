//! Slots of a ring, counted: where a step stands, and how its count moves on.
//!
//! | ring | its slots are counted |
//! |---|---|
//! | of mbarriers | in registers, with a parity, from the start of the kernel on and never set back |
//! | inside of which registers run on | in a register: in straight-line code, remainders by the depth would cost more |
//! | any other | by the number of the step: nothing lives from one step to the next |
//!
//! The slot that a step fills ahead is the one that the step before has read. Beyond the end nothing is filled; where registers
//! run on, no branch divides the straight line, and the step at hand is filled in again, which nobody reads.

use super::{
    Lowerer,
    emit::{Atom, Op},
    linear::Linear,
    mbarriers::Mbarriers,
    pipeline::Ring,
};
use crate::{
    kernel::{self, Expr as KExpr, Ty},
    op::{BinOp, CmpOp},
    plan::Producer,
};

/// Where a step of a ring stands.
pub(super) struct At {
    /// The slot that it reads.
    pub slot: Atom,
    /// What it fills, if those that read do.
    pub ahead: Option<Ahead>,
}

/// The step that is filled ahead.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    /// Its point.
    pub point: Atom,
    /// Whether there is such a step; `None`: the point is that of one.
    pub exists: Option<Atom>,
    /// The slot it goes to.
    pub slot: Atom,
}

impl Lowerer<'_> {
    /// Where a step of the ring around stands; of mbarriers, at this slot and parity.
    pub fn stand(&mut self, ring: &Ring<'_>, position: Option<[Atom; 2]>) -> At {
        let plan = &ring.flow.plan;
        if let (Producer::Role(_), Some([slot, _])) = (plan.producer, position) {
            return At { slot, ahead: None };
        }
        let ahead = i64::from(plan.ahead());
        let point = self.point();
        let (mut next, more) = self.steps_on(ring, point, ahead);
        if ring.counter.is_some() {
            next = self.within_end(ring, (next, more), point);
        }
        let [slot, free] = match (position, &ring.flow.mbarriers, ring.counter) {
            (Some([slot, _]), Some(channel), _) => [slot, self.slot_after(channel, slot, ahead)],
            (_, _, Some(counter)) => self.count_on(ring, counter),
            (_, _, None) => {
                let depth = Atom::i32(plan.slots.into());
                let step = self.emit.bin(BinOp::Div, point, Atom::i32(ring.stride()));
                let slot = self.emit.bin(BinOp::Rem, step, depth);
                let free = self.emit.add(step, Atom::i32(ahead));
                [slot, self.emit.bin(BinOp::Rem, free, depth)]
            }
        };
        let exists = ring.counter.is_none().then_some(more);
        At { slot, ahead: Some(Ahead { point: next, exists, slot: free }) }
    }

    /// Point and slot of the step behind one that reads `slot`, behind the last those of the last.
    pub fn following(&mut self, ring: &Ring<'_>, slot: Atom) -> [Atom; 2] {
        let point = self.point();
        let (next, exists) = self.steps_on(ring, point, 1);
        let after = self.counted(ring, slot, 1);
        let slot = self.emit.op(Op::Select, &[exists, after, slot]);
        [self.within_end(ring, (next, exists), point), slot]
    }

    /// The point of the innermost loop.
    fn point(&mut self) -> Atom {
        let now = self.stack.last().expect("a loop").value.clone();
        self.emit.index(&now)
    }

    /// The point so many steps behind another, and whether the ring has it.
    fn steps_on(&mut self, ring: &Ring<'_>, point: Atom, steps: i64) -> (Atom, Atom) {
        let next = self.emit.add(point, Atom::i32(steps * ring.stride()));
        let next = self.emit.multiple(next, ring.stride());
        (next, self.emit.cmp(CmpOp::Lt, next, ring.end))
    }

    /// A point if the ring has it, else another.
    fn within_end(&mut self, ring: &Ring<'_>, (next, exists): (Atom, Atom), otherwise: Atom) -> Atom {
        let chosen = self.emit.op(Op::Select, &[exists, next, otherwise]);
        self.emit.multiple(chosen, ring.stride())
    }

    /// The slot that a step reads and the one that it fills, by a register that counts; it is moved on.
    fn count_on(&mut self, ring: &Ring<'_>, counter: u32) -> [Atom; 2] {
        let slot = self.emit.var(Ty::I32);
        self.emit.stmt(kernel::Stmt::Let(slot, KExpr::Slot { frag: counter, slot: 0 }));
        let slot = Atom::Var(slot);
        let [next, before] = [1, -1].map(|step| self.counted(ring, slot, step));
        self.emit.stmt(kernel::Stmt::Set { frag: counter, slot: 0, value: next.expr() });
        [slot, before]
    }

    /// The slot behind another or before it.
    fn counted(&mut self, ring: &Ring<'_>, slot: Atom, step: i64) -> Atom {
        let last = i64::from(ring.flow.plan.slots) - 1;
        let (edge, to) = if step > 0 { (last, 0) } else { (0, last) };
        let at_edge = self.emit.cmp(CmpOp::Eq, slot, Atom::i32(edge));
        let moved = self.emit.add(slot, Atom::i32(step));
        self.emit.op(Op::Select, &[at_edge, Atom::i32(to), moved])
    }

    /// Of mbarriers, the slot and the parity of the step that is read next.
    pub fn position(&mut self, channel: &Mbarriers) -> [Atom; 2] {
        [0, 1].map(|slot| {
            let var = self.emit.var(Ty::I32);
            let value = KExpr::Slot { frag: channel.cursor, slot };
            self.emit.stmt(kernel::Stmt::Let(var, value));
            Atom::Var(var)
        })
    }

    /// `slot + step`, below the depth again.
    pub fn slot_after(&mut self, channel: &Mbarriers, slot: Atom, step: i64) -> Atom {
        let depth = i64::from(channel.depth);
        match step.rem_euclid(depth) {
            0 => slot,
            step => {
                let moved = self.emit.add(slot, Atom::i32(step));
                let beyond = self.emit.cmp(CmpOp::Ge, slot, Atom::i32(depth - step));
                let wrapped = self.emit.add(slot, Atom::i32(step - depth));
                self.emit.op(Op::Select, &[beyond, wrapped, moved])
            }
        }
    }

    /// One step on.
    pub fn advance(&mut self, channel: &Mbarriers, [slot, parity]: [Atom; 2]) {
        let next = self.slot_after(channel, slot, 1);
        let last = self.emit.cmp(CmpOp::Eq, slot, Atom::i32(i64::from(channel.depth) - 1));
        let turned = self.emit.bin(BinOp::Sub, Atom::i32(1), parity);
        let parity = self.emit.op(Op::Select, &[last, turned, parity]);
        self.set_position(channel, [next, parity]);
    }

    /// So many steps on, so many times; slot and parity count up to twice the depth together.
    pub fn advance_by(
        &mut self,
        channel: &Mbarriers,
        [slot, parity]: [Atom; 2],
        (steps, times): (Atom, i64),
    ) {
        let depth = i64::from(channel.depth);
        let round = Atom::i32(2 * depth);
        // Not so many that the product passes the range of an index.
        let steps = self.emit.bin(BinOp::Rem, steps, round);
        let moved = self.emit.bin(BinOp::Mul, steps, Atom::i32(times));
        let turned = self.emit.bin(BinOp::Mul, parity, Atom::i32(depth));
        let at = self.emit.add(slot, turned);
        let at = self.emit.add(at, moved);
        let at = self.emit.bin(BinOp::Rem, at, round);
        let odd = self.emit.cmp(CmpOp::Ge, at, Atom::i32(depth));
        let parity = self.emit.op(Op::Select, &[odd, Atom::i32(1), Atom::i32(0)]);
        let slot = self.emit.bin(BinOp::Rem, at, Atom::i32(depth));
        self.set_position(channel, [slot, parity]);
    }

    fn set_position(&mut self, channel: &Mbarriers, position: [Atom; 2]) {
        for (slot, value) in (0..).zip(position) {
            self.emit.stmt(kernel::Stmt::Set { frag: channel.cursor, slot, value: value.expr() });
        }
    }

    /// What `f` does, at another point of a ring's loop.
    pub fn at_point<R>(&mut self, ring: &Ring<'_>, point: Linear, f: impl FnOnce(&mut Self) -> R) -> R {
        let around = self.stack.iter().rposition(|b| b.digit == ring.digit).expect("the ring's loop");
        let now = std::mem::replace(&mut self.stack[around].value, point);
        let result = f(self);
        self.stack[around].value = now;
        result
    }
}
