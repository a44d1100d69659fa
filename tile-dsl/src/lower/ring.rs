//! Pipelined loops: the stages directly in the loop get a ring of `n` slots; step `t` computes on slot
//! `t mod n` while the copy for step `t + n - 1` is on its way. One barrier a step.
//!
//! ```text
//! for p in 0..n-1: if p < steps { copy(p) → slot p }; commit
//! for t: wait n-2; barrier            // slot t is complete, and everyone has left slot t - 1
//!        if t + n - 1 < steps { copy(t + n - 1) → slot (t - 1) mod n }; commit
//!        compute(slot t)
//! ```
//! A plain copy loads to registers before the computation and stores them after it.

use super::{
    Holds, Lowerer,
    copy::{CopyPlan, linear},
    digits::Bound,
    emit::Atom,
    error::LowerError,
    linear::Linear,
    stage::chain,
};
use crate::{
    kernel::{self, Expr as KExpr},
    nest::{Digit, LoopKind, Stmt},
    op::{BinOp, CmpOp},
};

/// A loop whose stages are `depth` deep.
pub(super) struct Ring<'p> {
    pub digit: Digit,
    pub depth: u32,
    pub end: Atom,
    pub plans: &'p [CopyPlan],
}

impl Lowerer<'_> {
    /// Lowers a loop whose stages are `depth` deep.
    pub fn ring(&mut self, digit: Digit, depth: u32, body: &Stmt) -> Result<(), LowerError> {
        let (copies, inner) = chain(body);
        if copies.is_empty() {
            return Err(LowerError::PipelineWithoutStage { axis: self.axis_name(digit.axis) });
        }
        let at = LoopKind::Pipe(depth);
        let stride = i64::from(digit.stride);
        let end = self.end(digit);

        // The prologue fills all slots but one.
        let first = Bound { digit, at, value: Linear::default() };
        self.stack.push(first);
        let mut plans = Vec::new();
        for copy in &copies {
            plans.push(self.plan(*copy, inner, depth)?);
        }
        if self.nest.produced.contains(&digit) {
            self.stack.pop();
            return self.consume_ring(&Ring { digit, depth, end, plans: &plans }, inner);
        }
        if plans.iter().all(|p| p.map.is_some()) {
            self.stack.pop();
            return self.tensor_ring(&Ring { digit, depth, end, plans: &plans }, inner);
        }
        let asynchronous = plans.iter().any(|p| p.asynchronous);
        for plan in &plans {
            self.write_shared(plan.buffer);
        }
        for step in 0..i64::from(depth) - 1 {
            let point = step * stride;
            let exists = self.emit.cmp(CmpOp::Lt, Atom::i32(point), end);
            let top = self.stack.len() - 1;
            self.stack[top].value = Linear::constant(point);
            if exists == Atom::Bool(false) {
                self.commit(asynchronous);
                continue;
            }
            self.emit.push();
            let copies: Vec<_> = plans.iter().map(|p| (p, self.slot_at(p, Atom::i32(step)))).collect();
            self.copy_all(&copies);
            let then = self.emit.pop();
            if exists == Atom::Bool(true) {
                then.into_iter().for_each(|s| self.emit.stmt(s));
            } else {
                self.emit.stmt(kernel::Stmt::If { cond: exists.expr(), then, otherwise: vec![] });
            }
            self.commit(asynchronous);
        }
        self.stack.pop();

        let ring = Ring { digit, depth, end, plans: &plans };
        match self.carried(inner, &plans) {
            Some(carried) => self.carried_ring(&ring, &carried),
            None => self.run_loop(digit, at, true, |this| this.ring_step(&ring, inner)),
        }
    }

    fn commit(&mut self, asynchronous: bool) {
        if asynchronous {
            self.emit.stmt(kernel::Stmt::CommitGroup);
        }
    }

    fn ring_step(&mut self, ring: &Ring<'_>, inner: &Stmt) -> Result<(), LowerError> {
        let Ring { digit, depth, end, plans } = *ring;
        let asynchronous = plans.iter().any(|p| p.asynchronous);
        if asynchronous {
            self.emit.stmt(kernel::Stmt::WaitGroup(depth - 2));
        }
        self.fence_stores(&plans.iter().collect::<Vec<_>>(), inner);
        self.barrier();
        let top = self.stack.len() - 1;
        let now = self.stack[top].value.clone();
        let point = self.emit.index(&now);
        let ahead = i64::from(depth) - 1;
        let next = self.emit.add(point, Atom::i32(ahead * i64::from(digit.stride)));
        if let Atom::Var(var) = next {
            self.emit.set_multiple(var, digit.stride.into());
        }
        let more = self.emit.cmp(CmpOp::Lt, next, end);
        let step = self.emit.bin(BinOp::Div, point, Atom::i32(digit.stride.into()));
        let slot = self.emit.bin(BinOp::Rem, step, Atom::i32(depth.into()));
        let free = self.emit.add(step, Atom::i32(ahead));
        let free = self.emit.bin(BinOp::Rem, free, Atom::i32(depth.into()));

        // Issue the next copy: asynchronous ones to their slot, plain ones to registers.
        self.stack[top].value = linear(next, 0);
        let mut frags = Vec::new();
        self.emit.push();
        for plan in plans {
            let chunks = self.chunks(plan);
            if plan.asynchronous {
                let to = self.slot_at(plan, free);
                self.issue(plan, &chunks, &to);
                frags.push(None);
                continue;
            }
            let frag = self.fragment(Holds::Next(plan.copy), plan.dtype, chunks.len() as u32 * plan.vector);
            for (n, chunk) in (0..).zip(&chunks) {
                let loaded = self.load_chunk(plan, chunk);
                for (lane, var) in (0..).zip(loaded) {
                    let slot = n * plan.vector + lane;
                    self.emit.stmt(kernel::Stmt::Set { frag, slot, value: KExpr::Var(var) });
                }
            }
            frags.push(Some((frag, chunks)));
        }
        let then = self.emit.pop();
        self.emit.stmt(kernel::Stmt::If { cond: more.expr(), then, otherwise: vec![] });
        self.commit(asynchronous);
        self.stack[top].value = now;

        let outside = self.stages.len();
        for plan in plans {
            let from = self.slot_at(plan, slot);
            self.stages.push(plan.active(from));
        }
        self.stmt(inner)?;
        self.stages.truncate(outside);

        // Plain copies land after the computation, in the slot that nobody reads now.
        self.emit.push();
        for (plan, loaded) in plans.iter().zip(&frags) {
            let Some((frag, chunks)) = loaded else { continue };
            let to = self.slot_at(plan, free);
            for (n, chunk) in (0..).zip(chunks) {
                let slots = n * plan.vector..(n + 1) * plan.vector;
                let values = slots.map(|slot| KExpr::Slot { frag: *frag, slot }).collect();
                self.store_chunk(plan, chunk, values, &to);
            }
        }
        let then = self.emit.pop();
        if !then.is_empty() {
            self.emit.stmt(kernel::Stmt::If { cond: more.expr(), then, otherwise: vec![] });
        }
        Ok(())
    }

    /// Offset of a ring slot.
    pub fn slot_at(&mut self, plan: &CopyPlan, slot: Atom) -> Linear {
        let offset = self.emit.bin(BinOp::Mul, slot, Atom::i32(plan.layout.elems));
        if let Atom::Var(var) = offset {
            self.emit.set_multiple(var, plan.layout.elems);
        }
        linear(offset, 0)
    }
}
