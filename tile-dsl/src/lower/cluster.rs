//! Reductions whose parts are held by the CTAs of a cluster (`split_k` with `cluster`).
//!
//! ```text
//! store shared v.parts[..] = v[..]            // this CTA's part of each element
//! cluster_barrier
//! v[s] = parts of CTA 0 + CTA 1 + ..          // of this CTA's share of the elements: the order is the same in every run
//! cluster arrive
//! rest                                        // for that share; where there is none to be had, in the first CTA alone
//! cluster wait                                // shared memory goes with its CTA
//! ```
//! Slots of a share follow one another in `v.parts`, as many as an access takes side by side, a CTA's threads apart: a warp
//! reads whole lines, and no two lanes meet in a bank.

use super::{
    Lowerer,
    emit::{Atom, Emit},
    error::LowerError,
    linear::Linear,
    storage::Registers,
};
use crate::{
    kernel::{self, Expr as KExpr, Mem, Ty, Var},
    nest::{Digit, Steps, ValueId, WIDEST},
    op::{BinOp, CmpOp},
    shared::Content,
};

/// The steps of a digit that this CTA has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub digit: Digit,
    /// CTAs that share it.
    pub ctas: u32,
    /// This one's number.
    rank: Atom,
}

impl Share {
    /// A step of this CTA, given the same step of the first one.
    pub fn step(&self, first: Linear) -> Linear {
        let Steps::Fixed(steps) = self.digit.steps else { return first };
        let wide = i64::from(steps / self.ctas) * i64::from(self.digit.stride);
        let mut point = first;
        if let Atom::Var(rank) = self.rank {
            point.add_scaled(&Linear::var(rank), wide);
        }
        point
    }
}

/// The parts of a value.
struct Parts {
    value: ValueId,
    registers: Registers,
    buffer: u32,
    /// Slots of the first CTA's share, and by how much those of the next one's are greater.
    own: Vec<u32>,
    next: u32,
    /// Elements of an access.
    width: u32,
}

impl Parts {
    /// The share's slots, as many at a time as an access takes, with their place among the accesses.
    fn accesses(&self) -> impl Iterator<Item = (i64, &[u32])> {
        (0..).zip(self.own.chunks(self.width as usize))
    }
}

impl Lowerer<'_> {
    /// Adds up the parts, and runs `rest`: for this CTA's share, or in the first CTA.
    pub fn through_cluster(
        &mut self,
        values: &[ValueId],
        rest: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let Some((rank, ctas)) = self.grid.part else {
            return Err(LowerError::Malformed("no loop is shared out among CTAs".into()));
        };
        let share = self.nest.share().map(|digit| Share { digit, ctas, rank });
        let across = values.iter().filter(|v| self.nest.across.contains_key(v));
        let all = across.map(|v| self.parts(*v, share)).collect::<Result<Vec<_>, _>>()?;
        for parts in &all {
            self.leave_for_peers(parts, ctas);
        }
        self.sync.barrier();
        self.emit.stmt(kernel::Stmt::ClusterBarrier);
        self.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
        let first = self.emit.cmp(CmpOp::Eq, rank, Atom::i32(0));
        let alone = share.is_none().then_some(first);
        self.only_if(alone, |this| all.iter().for_each(|parts| this.add_up(parts, rank, ctas)));
        self.emit.stmt(kernel::Stmt::ClusterArrive);
        self.share = share;
        let result = match alone {
            None => rest(self),
            Some(first) => {
                self.emit.push();
                let result = rest(self);
                let then = self.emit.pop();
                self.emit.stmt(kernel::Stmt::If { cond: first.expr(), then, otherwise: Vec::new() });
                result
            }
        };
        self.share = None;
        result?;
        self.emit.stmt(kernel::Stmt::ClusterWait);
        Ok(())
    }

    fn parts(&self, value: ValueId, share: Option<Share>) -> Result<Parts, LowerError> {
        let v = self.nest.value(value);
        let Some(registers) = self.held(value)?.registers.clone() else {
            return Err(LowerError::Malformed(format!("parts of `{}` are not in registers", v.name)));
        };
        let elems = u64::from(registers.slots) * u64::from(self.units.threads);
        let buffer = self.shared_buffer(Content::Parts(value), elems)?;
        let all = 0..registers.slots;
        let cut = share.filter(|s| v.axes.contains(&s.digit.axis));
        let (own, next): (Vec<u32>, u32) = match cut {
            None => (all.collect(), 0),
            Some(Share { digit, ctas, .. }) => {
                let (Some(weight), Steps::Fixed(steps)) = (registers.weight(digit), digit.steps) else {
                    return Err(LowerError::Malformed(format!("`{}` has no such share", v.name)));
                };
                let kept = |slot: &u32| slot / weight % steps < steps / ctas;
                (all.filter(kept).collect(), weight * (steps / ctas))
            }
        };
        let most = (WIDEST as u32 / v.dtype.bytes()).max(1);
        let width = 1 << (own.len() as u32).trailing_zeros().min(most.ilog2());
        Ok(Parts { value, registers, buffer, own, next, width })
    }

    /// Offset of an access among those of a share: its variable part is that of the thread.
    fn part_at(&mut self, parts: &Parts, access: i64) -> (Atom, i64) {
        let tid = self.units.tid(&mut self.emit);
        let thread = self.emit.bin(BinOp::Mul, tid, Atom::i32(parts.width.into()));
        (thread, access * i64::from(self.units.threads) * i64::from(parts.width))
    }

    fn leave_for_peers(&mut self, parts: &Parts, ctas: u32) {
        let Registers { frag, .. } = parts.registers;
        let shares = if parts.next == 0 { 1 } else { ctas };
        let each = parts.accesses().count() as i64;
        self.write_shared(parts.buffer);
        for cta in 0..shares {
            for (n, slots) in parts.accesses() {
                let (thread, constant) = self.part_at(parts, i64::from(cta) * each + n);
                let slot = |slot: &u32| KExpr::Slot { frag, slot: slot + cta * parts.next };
                self.emit.stmt(kernel::Stmt::Store {
                    mem: Mem::Shared(parts.buffer),
                    offset: Emit::sum_expr(Some(thread), constant, Ty::I32),
                    values: slots.iter().map(slot).collect(),
                    guard: None,
                });
            }
        }
    }

    /// Adds up all CTAs' parts of the share of the CTA of number `rank`.
    fn add_up(&mut self, parts: &Parts, rank: Atom, ctas: u32) {
        let v = self.nest.value(parts.value);
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, .. } = parts.registers;
        let each = parts.accesses().count() as i64;
        let shared = if parts.next == 0 { Atom::i32(0) } else { rank };
        for cta in 0..ctas {
            let mut loaded: Vec<(u32, Var)> = Vec::new();
            for (n, slots) in parts.accesses() {
                let (thread, constant) = self.part_at(parts, n);
                let (_, wide) = self.part_at(parts, each);
                let first = self.emit.bin(BinOp::Mul, shared, Atom::i32(wide));
                let base = self.emit.add(thread, first);
                let dst: Vec<Var> = slots.iter().map(|_| self.emit.var(Ty::Elem(v.dtype))).collect();
                loaded.extend(slots.iter().copied().zip(dst.iter().copied()));
                self.emit.stmt(kernel::Stmt::LoadPeer {
                    dst,
                    shared: parts.buffer,
                    offset: Emit::sum_expr(Some(base), constant, Ty::I32),
                    cta: KExpr::Int(cta.into(), Ty::I32),
                });
            }
            for (slot, var) in loaded {
                let part = KExpr::Var(var);
                let value = match cta {
                    0 => part,
                    _ => KExpr::Bin(op, Box::new(KExpr::Slot { frag, slot }), Box::new(part)),
                };
                self.emit.stmt(kernel::Stmt::Set { frag, slot, value });
            }
        }
        let Some(init) = v.init else { return };
        for slot in &parts.own {
            let init = Box::new(super::walk::literal(init, v.dtype).expr());
            let sum = Box::new(KExpr::Slot { frag, slot: *slot });
            let value = KExpr::Bin(op, init, sum);
            self.emit.stmt(kernel::Stmt::Set { frag, slot: *slot, value });
        }
    }
}
