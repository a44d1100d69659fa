//! Filling the slots of a channel: at once, or ahead, while another is read.
//!
//! ```text
//! fill ahead = begin: asynchronous copies go to their slot, plain ones to registers; commit
//!              land:  plain ones are stored, behind the computation
//! ```
//! A step makes both in place, or takes them as units that stay together to spread them over its computation
//! ([`super::interleave`]): what is begun, asynchronous copies last and in one unit, and what lands, store by store.

use super::{
    Holds, Lowerer,
    copy::{Chunk, CopyPlan, linear},
    emit::Atom,
    interleave::Units,
    linear::Linear,
    pipeline::{Flow, Ring},
    slots::Ahead,
};
use crate::{
    kernel::{self, Expr as KExpr},
    op::{BinOp, CmpOp},
    plan::{Full, Producer},
};

/// A part of a copy that is filled ahead.
pub(super) enum Piece<'p> {
    /// Asynchronous copies.
    Issued { plan: &'p CopyPlan<'p>, chunks: Vec<Chunk> },
    /// A vector that passes through registers, from a slot of a fragment on.
    Loaded { plan: &'p CopyPlan<'p>, chunk: Chunk, frag: u32, first: u32 },
}

impl Lowerer<'_> {
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
            Some(channel) => self.fill(channel, &flow.copies, slot),
            None => {
                let copies: Vec<_> = flow.copies.iter().map(|p| (p, self.slot_at(p, slot))).collect();
                self.copy_all(&copies);
            }
        }
    }

    fn commit(&mut self, flow: &Flow<'_>) {
        if flow.plan.full(self.variant) == Full::Group {
            self.emit.stmt(kernel::Stmt::CommitGroup);
        }
    }

    /// Fills the slot of a channel that has one.
    pub fn fill_once(&mut self, flow: &Flow<'_>) {
        self.filling(flow, |this| this.fill_slot(flow, Atom::i32(0)));
        self.commit(flow);
    }

    /// Fills the first slots of a ring.
    pub fn prologue(&mut self, ring: &Ring<'_>) {
        let flow = &ring.flow;
        let first = flow.mbarriers.as_ref().map(|channel| self.position(channel)[0]);
        self.filling(flow, |this| {
            for step in 0..i64::from(flow.plan.ahead()) {
                let point = step * ring.stride();
                let exists = this.emit.cmp(CmpOp::Lt, Atom::i32(point), ring.end);
                this.at_point(ring, Linear::constant(point), |this| {
                    this.only_if(Some(exists), |this| {
                        let slot = match (&flow.mbarriers, first) {
                            (Some(channel), Some(first)) => this.slot_after(channel, first, step),
                            _ => Atom::i32(step),
                        };
                        this.fill_slot(flow, slot);
                    });
                });
                this.commit(flow);
            }
        });
    }

    /// Begins to fill the slot that everyone has left; what is to land.
    pub fn begin_ahead<'p>(&mut self, ring: &'p Ring<'_>, ahead: &Ahead) -> Vec<Piece<'p>> {
        let flow = &ring.flow;
        let mut pieces = Vec::new();
        self.at_point(ring, linear(ahead.point, 0), |this| match &flow.mbarriers {
            Some(channel) => this.filling(flow, |this| {
                this.only_if(ahead.exists, |this| this.fill(channel, &flow.copies, ahead.slot));
            }),
            None => {
                this.only_if(ahead.exists, |this| {
                    for plan in &flow.copies {
                        for piece in this.pieces(plan) {
                            this.begin(&piece, ahead.slot);
                            pieces.push(piece);
                        }
                    }
                });
                this.commit(flow);
            }
        });
        pieces.retain(|piece| matches!(piece, Piece::Loaded { .. }));
        pieces
    }

    /// Plain copies land after the computation, in the slot that nobody reads now.
    pub fn land_ahead(&mut self, ahead: &Ahead, pieces: &[Piece<'_>]) {
        if !pieces.is_empty() {
            self.only_if(ahead.exists, |this| pieces.iter().for_each(|piece| this.land(piece, ahead.slot)));
        }
    }

    /// The same in units: what begins and what lands. Addresses of what lands are worked out here.
    pub fn units_ahead(&mut self, ring: &Ring<'_>, ahead: &Ahead) -> [Units; 2] {
        let flow = &ring.flow;
        let (plain, asynchronous): (Vec<_>, Vec<_>) = flow.copies.iter().partition(|p| !p.asynchronous);
        self.at_point(ring, linear(ahead.point, 0), |this| {
            let (mut begun, mut landing) = (Units::new(), Units::new());
            // They have two ways to go.
            for plan in plain {
                for piece in this.pieces(plan) {
                    begun.push(this.captured(|this| this.begin(&piece, ahead.slot)));
                    let stores = this.captured(|this| this.land(&piece, ahead.slot));
                    let (addresses, stores): (Vec<_>, Vec<_>) =
                        stores.into_iter().partition(|s| matches!(s, kernel::Stmt::Let(..)));
                    this.emit_all(addresses);
                    landing.extend(stores.into_iter().map(|s| vec![s]));
                }
            }
            // In one piece: ptxas waits for shared loads in flight before each run of asynchronous copies.
            if !asynchronous.is_empty() {
                begun.push(this.captured(|this| {
                    for plan in asynchronous {
                        let pieces = this.pieces(plan);
                        pieces.iter().for_each(|piece| this.begin(piece, ahead.slot));
                    }
                    this.commit(flow);
                }));
            }
            [begun, landing]
        })
    }

    fn pieces<'p>(&mut self, plan: &'p CopyPlan<'p>) -> Vec<Piece<'p>> {
        let chunks = self.chunks(plan);
        if plan.asynchronous {
            return vec![Piece::Issued { plan, chunks }];
        }
        let frag = self.fragment(Holds::Next(plan.of.copy), plan.dtype, chunks.len() as u32 * plan.vector);
        let loaded = |(n, chunk)| Piece::Loaded { plan, chunk, frag, first: n * plan.vector };
        (0..).zip(chunks).map(loaded).collect()
    }

    fn begin(&mut self, piece: &Piece<'_>, slot: Atom) {
        match piece {
            Piece::Issued { plan, chunks } => {
                let to = self.slot_at(plan, slot);
                self.issue(plan, chunks, &to);
            }
            Piece::Loaded { plan, chunk, frag, first } => {
                for (slot, var) in (*first..).zip(self.load_chunk(plan, chunk)) {
                    self.emit.stmt(kernel::Stmt::Set { frag: *frag, slot, value: KExpr::Var(var) });
                }
            }
        }
    }

    fn land(&mut self, piece: &Piece<'_>, slot: Atom) {
        let Piece::Loaded { plan, chunk, frag, first } = piece else { return };
        let to = self.slot_at(plan, slot);
        let slots = *first..first + plan.vector;
        let values = slots.map(|slot| KExpr::Slot { frag: *frag, slot }).collect();
        self.store_chunk(plan, chunk, values, &to);
    }

    /// Offset of a slot of a copy.
    pub fn slot_at(&mut self, plan: &CopyPlan<'_>, slot: Atom) -> Linear {
        let offset = self.emit.bin(BinOp::Mul, slot, Atom::i32(plan.layout.elems));
        linear(self.emit.multiple(offset, plan.layout.elems), 0)
    }
}
