//! The mbarriers of a channel of tensor copies: one a slot says when it is full, and, where others than its readers fill it,
//! one that says when it is free.
//!
//! ```text
//! fill(slot):   expect bytes full[slot]; a box, or this CTA's part of it for all of its cluster, completes full[slot]
//! await full:   full[slot] parity          advance: slot + 1 mod n, parity turned behind the last
//! ```
//! Slot and parity are counted in registers from the start of the kernel and never set back, so a loop that is entered
//! again goes on where it left off. What happens in which order is [`super::pipeline`]'s, and the producer's [`super::roles`].
//! Threads that read the slot by ordinary loads fence before others may fill it: the copy writes through the
//! asynchronous proxy. Threads that fill it by ordinary stores fence before products read it, which do so by that proxy.

use super::{
    Holds, Lowerer,
    copy::CopyPlan,
    emit::{Atom, Op},
    error::LowerError,
    linear::Linear,
    passes::Lowering,
    sync::Touch,
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr, Ty},
    nest::{CopyId, Frame, Nest, Stmt, leaves},
    op::{BinOp, CmpOp},
    schedule::Unit,
    shared::Content,
    tile::TensorId,
};

/// Those of the copies that complete together.
pub(super) struct Mbarriers<'p> {
    pub plans: Vec<&'p CopyPlan>,
    pub depth: u32,
    /// Buffer of the mbarriers that say when a slot is full.
    pub full: u32,
    /// That of those that say when it may be filled, where others than its readers fill it.
    pub empty: Option<u32>,
    /// Who says so: a warp, or each thread.
    pub arrive: Unit,
    /// Registers: slot and parity of the step that is read next.
    pub cursor: u32,
    /// Bytes of a step.
    bytes: u32,
}

/// An mbarrier ring of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barriers {
    pub buffer: u32,
    pub slots: u32,
    pub arrivals: u32,
}

/// Whether threads read a tensor by ordinary loads inside, and whether products read it by themselves.
pub(super) fn readers(nest: &Nest, body: &Stmt, tensor: TensorId) -> (bool, bool) {
    let (mut threads, mut products) = (false, false);
    leaves(body, &mut |path: &[Frame], leaf| {
        let (_, expr) = leaf.leaf().expect("a leaf");
        if expr.accesses().iter().any(|a| nest.access(*a).tensor == tensor) {
            let by_itself = nest.product(path, leaf).is_some_and(|p| p.atom.row().descriptors);
            threads |= !by_itself;
            products |= by_itself;
        }
    });
    (threads, products)
}

impl Lowerer<'_> {
    /// Those of some copies, which all come by tensor maps.
    pub fn mbarriers<'p>(
        &mut self,
        plans: Vec<&'p CopyPlan>,
        depth: u32,
    ) -> Result<Mbarriers<'p>, LowerError> {
        let first = plans.first().map(|p| p.copy).unwrap_or(CopyId(0));
        let full = self.shared_buffer(Content::Full(first), 2 * u64::from(depth))?;
        let cursor = self.fragment(Holds::Cursor(first), DType::I32, 2);
        if !self.barriers.iter().any(|b| b.buffer == full) {
            self.barriers.push(Barriers { buffer: full, slots: depth, arrivals: 1 });
            self.cursors.push(cursor);
        }
        let bytes = plans.iter().map(|p| p.bytes()).sum();
        Ok(Mbarriers { plans, depth, full, empty: None, arrive: Unit::Warp, cursor, bytes })
    }

    /// The slot and the parity of the step that is read next.
    pub fn position(&mut self, channel: &Mbarriers<'_>) -> [Atom; 2] {
        [0, 1].map(|slot| {
            let var = self.emit.var(Ty::I32);
            let value = KExpr::Slot { frag: channel.cursor, slot };
            self.emit.stmt(kernel::Stmt::Let(var, value));
            Atom::Var(var)
        })
    }

    /// `slot + step`, below the depth again.
    pub fn slot_after(&mut self, channel: &Mbarriers<'_>, slot: Atom, step: i64) -> Atom {
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
    pub fn advance(&mut self, channel: &Mbarriers<'_>, [slot, parity]: [Atom; 2]) {
        let next = self.slot_after(channel, slot, 1);
        let last = self.emit.cmp(CmpOp::Eq, slot, Atom::i32(i64::from(channel.depth) - 1));
        let turned = self.emit.bin(BinOp::Sub, Atom::i32(1), parity);
        let parity = self.emit.op(Op::Select, &[last, turned, parity]);
        for (slot, value) in [(0, next), (1, parity)] {
            self.emit.stmt(kernel::Stmt::Set { frag: channel.cursor, slot, value: value.expr() });
        }
    }

    /// Copies the boxes of the current point to a slot; one thread does.
    pub fn fill(&mut self, channel: &Mbarriers<'_>, slot: Atom) {
        let (barrier, bytes) = (channel.full, Some(channel.bytes));
        let arrive = Async::Arrive { barrier, slot: slot.expr(), bytes, cta: None };
        self.emit.stmt(kernel::Stmt::Async(arrive));
        for plan in &channel.plans {
            let Some(map) = plan.map else { continue };
            let mut to = if channel.depth > 1 { self.slot_at(plan, slot) } else { Linear::default() };
            let mut base = self.base(plan);
            if let Some(part) = plan.part {
                let rank = self.rank();
                base[part.dim].add_scaled(&rank, part.by as i64);
                to.add_scaled(&rank, part.elems as i64);
            }
            for piece in 0..plan.part.map_or(plan.from.pieces(), |p| p.pieces) {
                let (coordinates, offset) = self.panel(&plan.from, &base, &to, piece);
                let (shared, slot, everywhere) = (plan.buffer, slot.expr(), plan.part.is_some());
                let copy = Async::Copy { map, shared, offset, coordinates, barrier, slot, everywhere };
                self.emit.stmt(kernel::Stmt::Async(copy));
            }
        }
    }

    /// What one thread does.
    pub fn one(&mut self, body: impl FnOnce(&mut Self)) {
        self.emit.push();
        body(self);
        let body = self.emit.pop();
        self.emit.stmt(kernel::Stmt::One { thread: self.units.first, body });
    }

    /// About to have a copy fill a shared buffer; who reads it waits for the copy.
    pub fn fill_shared(&mut self, buffer: u32) {
        if self.sync.fill(Touch::shared(buffer), self.sync.depth()) {
            self.emit_barrier();
        }
        self.emit.forget_loads(|mem| mem == kernel::Mem::Shared(buffer));
    }

    pub fn await_full(&mut self, channel: &Mbarriers<'_>, [slot, parity]: [Atom; 2]) {
        let wait = Async::Wait { barrier: channel.full, slot: slot.expr(), parity: parity.expr() };
        self.emit.stmt(kernel::Stmt::Async(wait));
        self.emit.forget_loads(|mem| channel.plans.iter().any(|p| mem == kernel::Mem::Shared(p.buffer)));
    }

    /// What threads have read of the copies is read before a copy fills them again.
    pub fn fence_reads(&mut self, channel: &Mbarriers<'_>, body: &Stmt) {
        if channel.plans.iter().any(|p| readers(self.nest, body, p.tensor).0) {
            self.emit.stmt(kernel::Stmt::Async(Async::ProxyFence));
        }
    }

    /// What threads have stored into some copies is seen by products that read them.
    pub fn fence_stores(&mut self, plans: &[&CopyPlan], body: &Stmt) {
        let stored = |p: &&&CopyPlan| p.map.is_none() && readers(self.nest, body, p.tensor).1;
        if plans.iter().any(|p| stored(&p)) {
            self.emit.stmt(kernel::Stmt::Async(Async::ProxyFence));
        }
    }
}

impl CopyPlan {
    /// Bytes of the box.
    fn bytes(&self) -> u32 {
        self.extent.iter().product::<i64>() as u32 * self.dtype.bytes()
    }
}

/// Initialises the mbarriers of a kernel, and the registers that count their slots.
pub(super) fn initialise(lowering: &mut Lowering<'_>) -> Result<(), LowerError> {
    let others = lowering.nest().cluster.is_some() && !lowering.nest().cluster_reduces();
    let Lowering { barriers, cursors, kernel, .. } = lowering;
    if barriers.is_empty() {
        return Ok(());
    }
    let init = |b: &Barriers| {
        let Barriers { buffer: barrier, slots, arrivals } = *b;
        kernel::Stmt::Async(Async::Init { barrier, slots, arrivals })
    };
    let mut first: Vec<kernel::Stmt> = barriers.iter().map(init).collect();
    // Other CTAs of a cluster arrive there, too.
    first.push(if others { kernel::Stmt::ClusterBarrier } else { kernel::Stmt::Barrier });
    let zero = |frag: u32| [0, 1].map(|slot| kernel::Stmt::Set { frag, slot, value: KExpr::Int(0, Ty::I32) });
    first.extend(cursors.iter().flat_map(|frag| zero(*frag)));
    kernel.body.splice(0..0, first);
    Ok(())
}
