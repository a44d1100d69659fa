//! Pipelines of registers: the loop is expanded, and the loads of a step to come stand among the computation of the one at hand.
//!
//! ```text
//! for s in 0..n-1: load(s)                          // n sets of registers
//! for s in 0..S: load(s + n - 1) among compute(s)
//! ```
//! By itself such a pipeline runs empty at its end. Where [`Carry`](crate::nest::Carry) admits it, the last step loads the
//! first registers of the next slot of the ring around it. The ring's one wait and barrier a step stand before that last
//! step, and nothing else waits:
//!
//! ```text
//! await the first slot; load(0) from it
//! for t: for s in 0..S-1: load(s + 1) of slot t among compute(s), in the first steps with what begins to fill t + d,
//!                         in the later ones with what lands of it
//!        await slot t + 1                           // everyone has left slot t
//!        load(0) of slot t + 1 among compute(S - 1)
//! ```
//! All of this is one straight line. Near the end nothing is skipped: the last registers, which nobody reads, come from the
//! slot at hand.

use super::{
    Holds, Lowerer,
    copy::linear,
    digits::Bound,
    emit::Atom,
    error::LowerError,
    fragment::FragmentPlan,
    interleave::{Among, Units, interleave},
    linear::Linear,
    pipeline::Ring,
    slots::Ahead,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Ty},
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

impl<'a> Lowerer<'a> {
    /// A loop that is a pipeline of registers.
    pub fn register_pipeline(
        &mut self,
        digit: Digit,
        channel: &Channel,
        inner: &Stmt,
    ) -> Result<(), LowerError> {
        let Steps::Fixed(steps) = digit.steps else {
            let axis = self.axis_name(digit.axis);
            return Err(LowerError::Malformed(format!("a pipeline of registers over all of `{axis}`")));
        };
        let (copies, sets) = (channel.copies.clone(), channel.slots);
        let of = RegisterPipeline { units: Vec::new(), digit, steps, sets, copies, inner };
        let around = self.stack.len();
        self.enter(&of);
        let fragments = self.fragment_plans(&of.copies, inner, sets)?;
        let registers = RegisterPlan { of, fragments };
        self.load_first(&registers)?;
        self.register_steps(&registers, |_, _| Ok(Among::default()))?;
        self.stack.truncate(around);
        Ok(())
    }

    /// Stands at the first step of a pipeline of registers.
    fn enter(&mut self, of: &RegisterPipeline<'_>) {
        for (digit, at) in &of.units {
            let LoopKind::Unit(unit, dim) = at else { continue };
            let value = self.unit_value(*unit, *dim, *digit);
            self.stack.push(Bound::new(*digit, *at, value));
        }
        self.stack.push(Bound::new(of.digit, LoopKind::Unroll, Linear::default()));
    }

    /// The loads of all sets but one.
    fn load_first(&mut self, registers: &RegisterPlan<'_>) -> Result<(), LowerError> {
        for step in 0..registers.of.steps.min(registers.of.sets - 1) {
            let units = self.load_step(registers, step)?;
            self.emit_all(units.into_iter().flatten());
        }
        Ok(())
    }

    /// The steps, each with the loads for one to come and with what `around` has for it.
    fn register_steps(
        &mut self,
        registers: &RegisterPlan<'_>,
        mut around: impl FnMut(&mut Self, u32) -> Result<Among, LowerError>,
    ) -> Result<(), LowerError> {
        let RegisterPipeline { digit, steps, sets, inner, .. } = registers.of;
        for step in 0..steps {
            let mut among = around(self, step)?;
            let next = step + sets - 1;
            if next < steps {
                among.early = self.load_step(registers, next)?;
            }
            self.at_step(digit, step);
            let top = self.stack.len() - 1;
            self.stack[top].pass = Some((step, steps));
            let main = self.compute_on(&registers.fragments, step % sets, inner)?;
            let part = self.nest.interleave(digit).loads;
            self.emit_all(interleave(main, part, among));
        }
        Ok(())
    }

    /// The loads of a step into its set, in units.
    fn load_step(&mut self, registers: &RegisterPlan<'_>, step: u32) -> Result<Units, LowerError> {
        self.at_step(registers.of.digit, step);
        self.load_fragments(&registers.fragments, step % registers.of.sets)
    }

    fn at_step(&mut self, digit: Digit, step: u32) {
        let top = self.stack.len() - 1;
        self.stack[top].value = Linear::constant(i64::from(step) * i64::from(digit.stride));
    }

    /// Before a ring's loop, whose first slots are filled: loads the first registers.
    pub fn run_on<'s>(
        &mut self,
        ring: &mut Ring<'a>,
        of: RegisterPipeline<'s>,
    ) -> Result<RegisterPlan<'s>, LowerError> {
        self.await_slot(&ring.flow, of.inner);
        let around = self.stack.len();
        let registers = self.reading(ring, Atom::i32(0), |this| {
            this.enter(&of);
            let fragments = this.fragment_plans(&of.copies, of.inner, of.sets)?;
            let registers = RegisterPlan { of, fragments };
            let exists = this.emit.cmp(CmpOp::Lt, Atom::i32(0), ring.end);
            let mut loaded = Ok(());
            this.only_if(Some(exists), |this| loaded = this.load_first(&registers));
            loaded.map(|()| registers)
        })?;
        self.stack.truncate(around);
        let counter = self.fragment(Holds::Slot(ring.digit), DType::I32, 1);
        self.emit.stmt(kernel::Stmt::Set { frag: counter, slot: 0, value: KExpr::Int(0, Ty::I32) });
        ring.counter = Some(counter);
        Ok(registers)
    }

    /// What a step of the ring computes, with what it fills ahead among it.
    pub fn step_running_on(
        &mut self,
        ring: &Ring<'a>,
        (slot, ahead): (Atom, &Ahead),
        registers: &RegisterPlan<'_>,
    ) -> Result<(), LowerError> {
        let [next, next_slot] = self.following(ring, slot);
        let [begin, land] = self.units_ahead(ring, ahead);
        let RegisterPipeline { digit, steps, inner, .. } = registers.of;
        let Interleave { copies, stores, .. } = self.nest.interleave(digit);
        let part = |of: Fraction| of.floor(steps as usize) as u32;
        // The wait and the barrier stand before the last step: all are begun and landed by then.
        let early = 0..part(copies).clamp(1, steps - 1);
        let late = part(stores).min(steps - 2)..steps - 1;
        let around = self.stack.len();
        self.reading(ring, slot, |this| {
            this.enter(&registers.of);
            this.register_steps(registers, |this, step| {
                let even = [share(&begin, &early, step), share(&land, &late, step)].concat();
                let mut among = Among { early: Vec::new(), even };
                if step + 1 == steps {
                    this.await_slot(&ring.flow, inner);
                    // What is not in the ring's slots moves with its loop.
                    among.early = this.at_point(ring, linear(next, 0), |this| {
                        this.reading(ring, next_slot, |this| this.load_step(registers, 0))
                    })?;
                }
                Ok(among)
            })
        })?;
        self.stack.truncate(around);
        Ok(())
    }
}

/// The share of one step in what is spread over some of them.
fn share<T: Clone>(all: &[T], over: &Range<u32>, step: u32) -> Vec<T> {
    if !over.contains(&step) {
        return Vec::new();
    }
    let done = |step: u32| all.len() * (step - over.start) as usize / over.len();
    all[done(step)..done(step + 1)].to_vec()
}
