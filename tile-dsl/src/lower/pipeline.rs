//! The pipeliner: what the walk does for a channel in shared memory or in registers.
//!
//! ```text
//! for p in 0..d: if p < steps { fill(p) }               // d: the steps that a channel is filled ahead
//! for t: await full(t)
//!        if t + d < steps { fill(t + d) }
//!        read(t)
//!        if t + d < steps { land(t + d) }               // plain copies: loaded to registers before, stored now
//!        release(t)                                    // or release(t - n), once its products are done: n in flight
//! ```
//! A barrier behind `await full` says that all have left the slot before, which is the next to be filled. Where threads of
//! their own fill the slots (`roles`), those that read them do not; they say that a slot is free. Outside of a
//! pipeline, and in registers, a channel is the same without what does not apply to it.

use super::{
    Holds, Lowerer,
    channels::{ChannelPlan, Full, Producer},
    copy::{Chunk, CopyPlan, linear},
    digits::Bound,
    emit::Atom,
    error::LowerError,
    fragment::FragmentPlan,
    interleave::{Among, interleave},
    linear::Linear,
    mbarriers::Mbarriers,
};
use crate::{
    kernel::{self, Async, Expr as KExpr},
    nest::{Carry, Digit, LoopKind, Steps, Stmt, ValueId, chain},
    op::{BinOp, CmpOp},
};

/// A channel in shared memory, its buffers and its mbarriers.
pub(super) struct Flow<'p> {
    pub plan: &'p ChannelPlan,
    pub copies: Vec<&'p CopyPlan>,
    pub mbarriers: Option<Mbarriers<'p>>,
}

/// A channel whose items are the steps of a loop.
pub(super) struct Ring<'p> {
    pub flow: Flow<'p>,
    pub digit: Digit,
    pub end: Atom,
}

impl Ring<'_> {
    pub fn at(&self) -> LoopKind {
        LoopKind::Pipe(self.flow.plan.slots)
    }

    fn stride(&self) -> i64 {
        self.digit.stride.into()
    }
}

/// What is filled ahead in a step: the slot that the step reads, and plain copies that are to land.
struct Ahead {
    slot: Atom,
    landing: Option<Landing>,
}

struct Landing {
    more: Atom,
    free: Atom,
    /// By copy: registers, and what each of them is for.
    loaded: Vec<Option<(u32, Vec<Chunk>)>>,
}

impl Lowerer<'_> {
    /// Lowers a pipelined loop.
    pub fn pipeline(&mut self, digit: Digit, slots: u32, body: &Stmt) -> Result<(), LowerError> {
        let (copies, inner) = chain(body);
        let channels = ChannelPlan::of(self.nest, self.variant, Some((digit, slots)), &copies);
        let [channel] = channels.as_slice() else {
            let axis = self.axis_name(digit.axis);
            return Err(LowerError::Malformed(format!(
                "the pipeline over `{axis}` has {} channels",
                channels.len()
            )));
        };
        if channel.full == Full::Program {
            return self.register_pipeline(digit, channel, inner);
        }
        let end = self.end(digit);
        self.stack.push(Bound { digit, at: LoopKind::Pipe(slots), value: Linear::default() });
        let plans: Result<Vec<CopyPlan>, _> =
            copies.iter().map(|copy| self.plan(*copy, inner, slots)).collect();
        let plans = plans?;
        let flow = self.open(channel, plans.iter().collect())?;
        let ring = Ring { flow, digit, end };
        if !matches!(channel.producer, Producer::Role(_)) {
            self.prologue(&ring);
        }
        self.stack.pop();
        match Carry::of(self.nest, &channel.copies, inner) {
            Carry::Over(carried) => self.carried_ring(&ring, &carried),
            Carry::None | Carry::Apart(_) => {
                let takes_turns = self.nest.pingpong.is_some();
                if takes_turns {
                    self.begin_turn(&ring)?;
                }
                // Threads that wait at mbarriers alone have not met.
                let meets = channel.has_barrier();
                self.run_loop(digit, ring.at(), meets, |this| this.step(&ring, inner))?;
                if takes_turns {
                    self.pass_turn()?;
                }
                self.drain(&ring, inner)?;
                if takes_turns {
                    self.end_turn(&ring);
                }
                Ok(())
            }
        }
    }

    /// A channel whose slots the threads at hand are about to use.
    pub fn open<'p>(
        &mut self,
        plan: &'p ChannelPlan,
        copies: Vec<&'p CopyPlan>,
    ) -> Result<Flow<'p>, LowerError> {
        let mbarriers = match plan.producer {
            Producer::Each | Producer::All => None,
            Producer::One => Some(self.mbarriers(copies.clone(), plan.slots)?),
            Producer::Role(_) => Some(self.produced(copies.clone(), plan.slots, plan.arrive)?),
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

    /// What those who fill a channel do.
    fn filling(&mut self, flow: &Flow<'_>, body: impl FnOnce(&mut Self)) {
        match flow.plan.producer {
            Producer::One => self.one(body),
            Producer::Each | Producer::All | Producer::Role(_) => body(self),
        }
    }

    /// Copies an item at the current point to a slot.
    fn fill_slot(&mut self, flow: &Flow<'_>, slot: Atom) {
        match &flow.mbarriers {
            Some(channel) => self.fill(channel, slot),
            None => {
                let copies: Vec<_> = flow.copies.iter().map(|p| (*p, self.slot_at(p, slot))).collect();
                self.copy_all(&copies);
            }
        }
    }

    fn commit(&mut self, flow: &Flow<'_>) {
        if flow.plan.full == Full::Group {
            self.emit.stmt(kernel::Stmt::CommitGroup);
        }
    }

    /// Fills the slot of a channel that has one.
    pub fn fill_once(&mut self, flow: &Flow<'_>) {
        self.filling(flow, |this| this.fill_slot(flow, Atom::i32(0)));
        self.commit(flow);
    }

    /// Waits until the next slot is full and everyone has left the one before; `body` reads it. Of a channel with mbarriers, its slot
    /// and parity.
    pub fn await_slot(&mut self, flow: &Flow<'_>, body: &Stmt) -> Option<[Atom; 2]> {
        let position = flow.mbarriers.as_ref().map(|channel| {
            let [slot, parity] = self.position(channel);
            let position = [if flow.plan.slots == 1 { Atom::i32(0) } else { slot }, parity];
            self.await_full(channel, position);
            position
        });
        match flow.plan.full {
            Full::Group => self.emit.stmt(kernel::Stmt::WaitGroup(flow.plan.groups_ahead())),
            Full::Program | Full::Barrier | Full::Mbarrier => {}
        }
        self.fence_stores(&flow.copies, body);
        if flow.plan.has_barrier() {
            self.barrier();
        }
        position
    }

    /// The first items of a ring.
    fn prologue(&mut self, ring: &Ring<'_>) {
        let flow = &ring.flow;
        let first = flow.mbarriers.as_ref().map(|channel| self.position(channel)[0]);
        let top = self.stack.len() - 1;
        self.filling(flow, |this| {
            for step in 0..i64::from(flow.plan.ahead()) {
                let point = step * ring.stride();
                this.stack[top].value = Linear::constant(point);
                let exists = this.emit.cmp(CmpOp::Lt, Atom::i32(point), ring.end);
                this.only_if(Some(exists), |this| {
                    let slot = match (&flow.mbarriers, first) {
                        (Some(channel), Some(first)) => this.slot_after(channel, first, step),
                        _ => Atom::i32(step),
                    };
                    this.fill_slot(flow, slot);
                });
                this.commit(flow);
            }
        });
    }

    /// A step of a ring.
    fn step(&mut self, ring: &Ring<'_>, inner: &Stmt) -> Result<(), LowerError> {
        let position = self.await_slot(&ring.flow, inner);
        let ahead = self.fill_ahead(ring, position);
        let outside = self.read_slot(ring, ahead.slot);
        self.stmt(inner)?;
        self.stages.truncate(outside);
        self.land(ring, ahead.landing);
        if let (Some(channel), Some(position)) = (&ring.flow.mbarriers, position) {
            self.fence_reads(channel, inner);
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
            results.push((registers.frag, (0..registers.slots).collect()));
        }
        self.emit.stmt(kernel::Stmt::Async(Async::WaitProducts { pending: steps, results }));
        Ok(())
    }

    /// Gives the slot back that was read some steps ago, if there were so many.
    fn release_behind(&mut self, ring: &Ring<'_>, channel: &Mbarriers<'_>, slot: Atom, steps: u32) {
        let now = self.stack.last().map(|b| self.passed(b)).unwrap_or_default();
        let point = self.emit.index(&now);
        let first = Atom::i32(i64::from(steps) * ring.stride());
        let behind = self.emit.cmp(CmpOp::Ge, point, first);
        self.only_if(Some(behind), |this| {
            let before = this.slot_after(channel, slot, -i64::from(steps));
            this.release(channel, before);
        });
    }

    /// Behind the loop: waits for the products of its last steps, and gives their slots back.
    fn drain(&mut self, ring: &Ring<'_>, inner: &Stmt) -> Result<(), LowerError> {
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

    /// What is read of the copies comes from a slot; returns how many stages there were.
    pub fn read_slot(&mut self, ring: &Ring<'_>, slot: Atom) -> usize {
        let outside = self.stages.len();
        for plan in &ring.flow.copies {
            let from = self.slot_at(plan, slot);
            self.stages.push(plan.active(from));
        }
        outside
    }

    /// Offset of a slot of a copy.
    pub fn slot_at(&mut self, plan: &CopyPlan, slot: Atom) -> Linear {
        let offset = self.emit.bin(BinOp::Mul, slot, Atom::i32(plan.layout.elems));
        if let Atom::Var(var) = offset {
            self.emit.set_multiple(var, plan.layout.elems);
        }
        linear(offset, 0)
    }

    /// Fills the slot that everyone has left, as far as it can be done before this step's slot is read.
    fn fill_ahead(&mut self, ring: &Ring<'_>, position: Option<[Atom; 2]>) -> Ahead {
        let flow = &ring.flow;
        if let (Producer::Role(_), Some([slot, _])) = (flow.plan.producer, position) {
            return Ahead { slot, landing: None };
        }
        let (stride, ahead) = (ring.stride(), i64::from(flow.plan.ahead()));
        let top = self.stack.len() - 1;
        let now = self.stack[top].value.clone();
        let point = self.emit.index(&now);
        let next = self.emit.add(point, Atom::i32(ahead * stride));
        if let Atom::Var(var) = next {
            self.emit.set_multiple(var, stride);
        }
        let more = self.emit.cmp(CmpOp::Lt, next, ring.end);
        let filled = match (&flow.mbarriers, position) {
            (Some(channel), Some([slot, _])) => {
                self.stack[top].value = linear(next, 0);
                self.filling(flow, |this| {
                    this.only_if(Some(more), |this| {
                        let free = this.slot_after(channel, slot, ahead);
                        this.fill(channel, free);
                    });
                });
                Ahead { slot, landing: None }
            }
            _ => {
                let depth = Atom::i32(flow.plan.slots.into());
                let step = self.emit.bin(BinOp::Div, point, Atom::i32(stride));
                let slot = self.emit.bin(BinOp::Rem, step, depth);
                let free = self.emit.add(step, Atom::i32(ahead));
                let free = self.emit.bin(BinOp::Rem, free, depth);
                self.stack[top].value = linear(next, 0);
                let mut loaded = Vec::new();
                self.only_if(Some(more), |this| {
                    loaded = flow.copies.iter().map(|plan| this.begin_copy(plan, free)).collect();
                });
                self.commit(flow);
                Ahead { slot, landing: Some(Landing { more, free, loaded }) }
            }
        };
        self.stack[top].value = now;
        filled
    }

    /// Asynchronous copies go to their slot, plain ones to registers.
    fn begin_copy(&mut self, plan: &CopyPlan, free: Atom) -> Option<(u32, Vec<Chunk>)> {
        let chunks = self.chunks(plan);
        if plan.asynchronous {
            let to = self.slot_at(plan, free);
            self.issue(plan, &chunks, &to);
            return None;
        }
        let frag = self.fragment(Holds::Next(plan.copy), plan.dtype, chunks.len() as u32 * plan.vector);
        for (n, chunk) in (0..).zip(&chunks) {
            let loaded = self.load_chunk(plan, chunk);
            for (lane, var) in (0..).zip(loaded) {
                let slot = n * plan.vector + lane;
                self.emit.stmt(kernel::Stmt::Set { frag, slot, value: KExpr::Var(var) });
            }
        }
        Some((frag, chunks))
    }

    /// Plain copies land after the computation, in the slot that nobody reads now.
    fn land(&mut self, ring: &Ring<'_>, landing: Option<Landing>) {
        let Some(Landing { more, free, loaded }) = landing else { return };
        if loaded.iter().all(Option::is_none) {
            return;
        }
        self.only_if(Some(more), |this| {
            for (plan, loaded) in ring.flow.copies.iter().zip(&loaded) {
                let Some((frag, chunks)) = loaded else { continue };
                let to = this.slot_at(plan, free);
                for (n, chunk) in (0..).zip(chunks) {
                    let slots = n * plan.vector..(n + 1) * plan.vector;
                    let values = slots.map(|slot| KExpr::Slot { frag: *frag, slot }).collect();
                    this.store_chunk(plan, chunk, values, &to);
                }
            }
        });
    }

    /// A pipeline of registers: the loop is expanded, and loads stand among the computation.
    fn register_pipeline(
        &mut self,
        digit: Digit,
        channel: &ChannelPlan,
        inner: &Stmt,
    ) -> Result<(), LowerError> {
        let Steps::Fixed(steps) = digit.steps else {
            let axis = self.axis_name(digit.axis);
            return Err(LowerError::Malformed(format!("a pipeline of registers over all of `{axis}`")));
        };
        let (sets, ahead) = (channel.slots, channel.ahead());
        self.stack.push(Bound { digit, at: LoopKind::Unroll, value: Linear::default() });
        let plans = self.fragment_plans(&channel.copies, inner, sets)?;
        for step in 0..steps.min(ahead) {
            let units = self.load_step(&plans, digit, step, step)?;
            self.emit_all(units.into_iter().flatten());
        }
        for step in 0..steps {
            let next = step + ahead;
            let early =
                if next < steps { self.load_step(&plans, digit, next, next % sets)? } else { Vec::new() };
            self.register_step(&plans, (digit, step, step % sets), inner, Among { early, even: vec![] })?;
        }
        self.stack.pop();
        Ok(())
    }

    /// The loads of a step of a pipeline of registers into one of the sets.
    pub fn load_step(
        &mut self,
        plans: &[FragmentPlan<'_>],
        digit: Digit,
        step: u32,
        set: u32,
    ) -> Result<Vec<Vec<kernel::Stmt>>, LowerError> {
        self.at_step(digit, step);
        self.load_fragments(plans, set)
    }

    /// A step of a pipeline of registers: computes on one of the sets, with other work in between.
    pub fn register_step(
        &mut self,
        plans: &[FragmentPlan<'_>],
        (digit, step, set): (Digit, u32, u32),
        inner: &Stmt,
        among: Among,
    ) -> Result<(), LowerError> {
        self.at_step(digit, step);
        let main = self.compute_on(plans, set, inner)?;
        let part = self.nest.interleave(digit).loads;
        self.emit_all(interleave(main, part, among));
        Ok(())
    }

    fn at_step(&mut self, digit: Digit, step: u32) {
        let top = self.stack.len() - 1;
        self.stack[top].value = Linear::constant(i64::from(step) * i64::from(digit.stride));
    }
}
