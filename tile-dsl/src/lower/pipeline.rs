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
//! A barrier behind `await full` says that all have left the slot before, which is the next to be filled. Where threads of
//! their own fill the slots (`roles`), those that read them do not; they say that a slot is free. Outside of a
//! pipeline a channel is the same without what does not apply to it.
//!
//! Here is the order of a step; which slots it means is [`super::slots`]'s, how one is filled [`super::fill`]'s. What begins and
//! lands stands in place, or among the computation where that is a straight line: in a pipeline of registers, whose loads
//! are its own `begin`, and in a ring inside of which one runs on from step to step ([`super::registers`]).

use super::{
    Lowerer, copy::CopyPlan, digits::Bound, emit::Atom, error::LowerError, linear::Linear,
    mbarriers::Mbarriers, registers::RegisterPlan,
};
use crate::{
    kernel::{self, Async},
    nest::{Carry, CopyId, Digit, LoopKind, Stmt, ValueId, chain},
    op::CmpOp,
    plan::{Channel, Full, Producer},
};

/// A channel in shared memory, its buffers and its mbarriers.
pub(super) struct Flow<'p> {
    pub plan: &'p Channel,
    pub copies: Vec<CopyPlan<'p>>,
    pub mbarriers: Option<Mbarriers>,
}

/// A channel whose items are the steps of a loop.
pub(super) struct Ring<'p> {
    pub flow: Flow<'p>,
    pub digit: Digit,
    pub end: Atom,
    /// The register that counts its slots, where registers inside run on.
    pub counter: Option<u32>,
}

impl Ring<'_> {
    /// Its first step.
    pub fn start(&self) -> Bound {
        Bound::new(self.digit, self.at(), Linear::default())
    }

    pub fn at(&self) -> LoopKind {
        LoopKind::Pipe(self.flow.plan.slots)
    }

    pub fn stride(&self) -> i64 {
        self.digit.stride.into()
    }
}

impl<'a> Lowerer<'a> {
    /// Lowers a pipelined loop.
    pub fn pipeline(&mut self, digit: Digit, slots: u32, body: &Stmt) -> Result<(), LowerError> {
        let (copies, inner) = chain(body);
        let channel = self.channel(digit, slots, &copies)?;
        if channel.full(self.variant) == Full::Program {
            return self.register_pipeline(digit, channel, inner);
        }
        let mut ring = self.ring(digit, channel, inner)?;
        self.stack.push(ring.start());
        if !matches!(ring.flow.plan.producer, Producer::Role(_)) {
            self.prologue(&ring);
        }
        let runs_on = match Carry::of(self.nest, &copies, inner) {
            Carry::Over(registers) => Some(self.run_on(&mut ring, registers)?),
            Carry::None | Carry::Apart(_) => None,
        };
        self.stack.pop();
        let takes_turns = self.nest.pingpong.is_some();
        if takes_turns {
            self.begin_turn(&ring)?;
        }
        // Threads that wait at mbarriers alone have not met.
        let meets = ring.flow.plan.has_barrier();
        self.run_loop(digit, ring.at(), meets, |this| this.step(&ring, inner, runs_on.as_ref()))?;
        if takes_turns {
            self.pass_turn()?;
        }
        self.drain(&ring, inner)?;
        if takes_turns {
            self.end_turn(&ring);
        }
        Ok(())
    }

    /// The channel of a pipelined loop.
    pub fn channel(&self, digit: Digit, slots: u32, copies: &[CopyId]) -> Result<&'a Channel, LowerError> {
        let plan = self.plan;
        match plan.channels.get(Some((digit, slots)), copies) {
            [channel] => Ok(channel),
            _ => {
                let axis = self.axis_name(digit.axis);
                let text = format!("the copies in the pipeline over `{axis}` are not one channel");
                Err(LowerError::Malformed(text))
            }
        }
    }

    /// A channel in shared memory whose items are the steps of a loop.
    pub fn ring(&mut self, digit: Digit, plan: &'a Channel, inner: &Stmt) -> Result<Ring<'a>, LowerError> {
        let end = self.end(digit);
        let at = LoopKind::Pipe(plan.slots);
        self.stack.push(Bound::new(digit, at, Linear::default()));
        let flow = self.open(plan, inner);
        self.stack.pop();
        Ok(Ring { flow: flow?, digit, end, counter: None })
    }

    /// A channel in shared memory, whose slots the threads at hand are about to use.
    pub fn open(&mut self, plan: &'a Channel, body: &Stmt) -> Result<Flow<'a>, LowerError> {
        let copies = plan.copies.iter().map(|copy| self.plan(*copy, body, plan.slots));
        let copies = copies.collect::<Result<Vec<_>, _>>()?;
        let mbarriers = match plan.full(self.variant) {
            Full::Program | Full::Barrier | Full::Group => None,
            Full::Mbarrier => Some(self.mbarriers(plan, &copies)?),
        };
        for copy in &copies {
            match plan.producer {
                Producer::Each | Producer::All => self.write_shared(copy.buffer),
                Producer::One => self.fill_shared(copy.buffer),
                Producer::Role(_) => {}
            }
        }
        Ok(Flow { plan, copies, mbarriers })
    }

    /// Waits until the next slot is full and everyone has left the one before; `body` reads it. Of a channel with mbarriers, its slot
    /// and parity.
    pub fn await_slot(&mut self, flow: &Flow<'_>, body: &Stmt) -> Option<[Atom; 2]> {
        let position = flow.mbarriers.as_ref().map(|channel| {
            let [slot, parity] = self.position(channel);
            let position = [if flow.plan.slots == 1 { Atom::i32(0) } else { slot }, parity];
            self.await_full(channel, &flow.copies, position);
            position
        });
        match flow.plan.full(self.variant) {
            Full::Group => self.emit.stmt(kernel::Stmt::WaitGroup(flow.plan.groups_ahead())),
            Full::Program | Full::Barrier | Full::Mbarrier => {}
        }
        self.fence_stores(&flow.copies, body);
        if flow.plan.has_barrier() {
            self.barrier();
        }
        position
    }

    /// A step of a ring.
    fn step(
        &mut self,
        ring: &Ring<'a>,
        inner: &Stmt,
        runs_on: Option<&RegisterPlan<'_>>,
    ) -> Result<(), LowerError> {
        // Where registers run on, the step before has waited.
        let position = if runs_on.is_none() { self.await_slot(&ring.flow, inner) } else { None };
        let at = self.stand(ring, position);
        match (&at.ahead, runs_on) {
            (None, _) => self.reading(ring, at.slot, |this| this.stmt(inner))?,
            (Some(ahead), Some(registers)) => self.step_running_on(ring, (at.slot, ahead), registers)?,
            (Some(ahead), None) => {
                let pieces = self.begin_ahead(ring, ahead);
                self.reading(ring, at.slot, |this| this.stmt(inner))?;
                self.land_ahead(ahead, &pieces);
            }
        }
        if let (Some(channel), Some(position)) = (&ring.flow.mbarriers, position) {
            self.fence_reads(&ring.flow.copies, inner);
            match self.nest.in_flight(inner) {
                None => self.release(channel, position[0]),
                Some((values, steps)) => {
                    self.await_products(&values, steps)?;
                    self.release_behind(ring, channel, position[0], steps);
                }
            }
            self.advance(channel, position);
        }
        Ok(())
    }

    /// Waits for the products into some values but those of the youngest steps.
    fn await_products(&mut self, values: &[ValueId], steps: u32) -> Result<(), LowerError> {
        let mut results = Vec::new();
        for value in values {
            let Some(registers) = &self.held(*value)?.registers else { continue };
            results.push((registers.frag, self.slots_in_tile(registers)));
        }
        self.emit.stmt(kernel::Stmt::Async(Async::WaitProducts { pending: steps, results }));
        Ok(())
    }

    /// Gives the slot back that was read some steps ago, if there were so many.
    fn release_behind(&mut self, ring: &Ring<'a>, channel: &Mbarriers, slot: Atom, steps: u32) {
        let now = self.stack.last().map(|b| self.passed(b)).unwrap_or_default();
        let point = self.emit.index(&now);
        let first = Atom::i32(i64::from(steps) * ring.stride());
        let behind = self.emit.cmp(CmpOp::Ge, point, first);
        self.only_if(Some(behind), |this| {
            let before = this.slot_after(channel, slot, -i64::from(steps));
            this.release(channel, before);
        });
    }

    /// Behind the loop: waits for the copies of steps that there are not, and for the products of its last steps, whose slots
    /// it gives back.
    fn drain(&mut self, ring: &Ring<'a>, inner: &Stmt) -> Result<(), LowerError> {
        if ring.counter.is_some() && ring.flow.plan.full(self.variant) == Full::Group {
            self.emit.stmt(kernel::Stmt::WaitGroup(0));
        }
        let (Some(channel), Some((values, steps))) = (&ring.flow.mbarriers, self.nest.in_flight(inner))
        else {
            return Ok(());
        };
        self.await_products(&values, 0)?;
        let next = self.position(channel)[0];
        for back in (1..=i64::from(steps)).rev() {
            let exists = self.emit.cmp(CmpOp::Lt, Atom::i32((back - 1) * ring.stride()), ring.end);
            self.only_if(Some(exists), |this| {
                let slot = this.slot_after(channel, next, -back);
                this.release(channel, slot);
            });
        }
        Ok(())
    }

    /// What `f` reads of a ring's copies comes from a slot.
    pub fn reading<R>(&mut self, ring: &Ring<'a>, slot: Atom, f: impl FnOnce(&mut Self) -> R) -> R {
        let outside = self.stages.len();
        for plan in &ring.flow.copies {
            let from = self.slot_at(plan, slot);
            self.stages.push(plan.active(from));
        }
        let result = f(self);
        self.stages.truncate(outside);
        result
    }
}
