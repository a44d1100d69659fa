//! Reductions whose parts are held by the CTAs of a cluster (`split_k` with `cluster`).
//!
//! ```text
//! cluster arrive                              // where nothing uses the bytes of v.parts before; at the start of the kernel
//! ..
//! cluster wait                                // or `cluster_barrier`: the others run, and those bytes of theirs are free
//! peer v.parts[..] of r = v[..]               // this CTA's part of the share of each other CTA r
//! cluster_barrier
//! v[s] = parts of CTA 0 + CTA 1 + ..          // of this CTA's share: its own from registers; the order is the same in every run
//! rest                                        // for that share; where there is none to be had, in the first CTA alone
//! ```
//! Nobody's memory is accessed by others behind the barrier, so a CTA ends when it is done. Slots of a share follow one
//! another in `v.parts`, as many as an access takes side by side, a CTA's threads apart, and so do the shares of the other
//! CTAs, by rank: a warp accesses whole lines, and no two lanes meet in a bank.

use super::{
    Lowerer,
    emit::{Atom, Emit, Op},
    error::LowerError,
    linear::Linear,
    storage::{Held, Registers},
};
use crate::{
    kernel::{Expr as KExpr, Mem, Stmt, Ty, Var},
    nest::{CopyId, Digit, Steps, ValueId},
    op::{BinOp, CmpOp},
    plan::{Ctas, Cut},
    schedule::Via,
    shared::{Buffer, Content},
};
use std::cmp::Ordering;

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
struct Parts<'a> {
    value: ValueId,
    registers: Registers<'a>,
    buffer: u32,
    cut: &'a Cut,
}

impl Parts<'_> {
    /// The share's slots, as many at a time as an access takes, with their place among the accesses.
    fn accesses(&self) -> impl Iterator<Item = (i64, &[u32])> {
        (0..).zip(self.cut.own.chunks(self.cut.width as usize))
    }
}

impl<'a> Lowerer<'a> {
    /// At the start of the kernel: says that this CTA runs, where others store into bytes that nothing uses before.
    pub fn announce(&mut self) {
        let free = |b: &Buffer| b.fresh || !matches!(b.content, Content::Parts(_));
        self.announced = self.nest.cluster_reduces() && self.shared.buffers.iter().all(free);
        if self.announced {
            self.emit.stmt(Stmt::ClusterArrive);
        }
    }

    /// A barrier of the cluster, which threads of other roles come to as well.
    fn meet(&mut self, barrier: Stmt) {
        self.meetings.push(barrier.clone());
        self.emit.stmt(barrier);
    }

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
        let mut all = Vec::new();
        for value in values {
            all.extend(self.parts(*value, ctas)?);
        }
        self.await_room(&all);
        let going_on = if share.is_some() { ctas } else { 1 };
        for to in 0..going_on {
            let other = self.emit.cmp(CmpOp::Ne, rank, Atom::i32(to.into()));
            self.only_if(Some(other), |this| all.iter().for_each(|parts| this.send(parts, to, rank, ctas)));
        }
        self.sync.barrier();
        self.meet(Stmt::ClusterBarrier);
        self.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
        self.share = share;
        let result = match share {
            Some(_) => {
                self.of_rank(rank, (0, ctas), &|this, own| {
                    all.iter().for_each(|parts| this.add_up(parts, own, ctas));
                });
                rest(self)
            }
            None => {
                let first = self.emit.cmp(CmpOp::Eq, rank, Atom::i32(0));
                self.emit.push();
                all.iter().for_each(|parts| self.add_up(parts, 0, ctas));
                let result = rest(self);
                let then = self.emit.pop();
                self.emit.stmt(Stmt::If { cond: first.expr(), then, otherwise: Vec::new() });
                result
            }
        };
        self.share = None;
        result
    }

    /// Until the other CTAs run, and the bytes of the parts are free in all of them.
    fn await_room(&mut self, all: &[Parts<'_>]) {
        if std::mem::take(&mut self.announced) {
            return self.meet(Stmt::ClusterWait);
        }
        let copied = all.iter().any(|parts| {
            let own = &self.shared.buffers[parts.buffer as usize];
            let by_cp_async = |c: CopyId| self.nest.copy(c).via == Via::CpAsync;
            let mut others = self.shared.buffers.iter().filter(|b| b.overlaps(own));
            others.any(|b| matches!(b.content, Content::Copy(c) if by_cp_async(c)))
        });
        if copied {
            self.emit.stmt(Stmt::WaitGroup(0));
        }
        self.sync.barrier();
        self.meet(Stmt::ClusterBarrier);
        self.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
    }

    /// What the CTA of each rank does: which it is, is known while compiling then.
    fn of_rank(&mut self, rank: Atom, (own, end): (u32, u32), body: &dyn Fn(&mut Self, u32)) {
        if own + 1 == end {
            return body(self, own);
        }
        let this_one = self.emit.cmp(CmpOp::Eq, rank, Atom::i32(own.into()));
        self.emit.push();
        body(self, own);
        let then = self.emit.pop();
        self.emit.push();
        self.of_rank(rank, (own + 1, end), body);
        let otherwise = self.emit.pop();
        self.emit.stmt(Stmt::If { cond: this_one.expr(), then, otherwise });
    }

    fn parts(&self, value: ValueId, ctas: u32) -> Result<Option<Parts<'a>>, LowerError> {
        let Held { sum, registers, .. } = self.held(value)?;
        let cut = sum.and_then(|sum| sum.ctas.as_ref());
        let Some(Ctas::Cluster(cut)) = cut else { return Ok(None) };
        let registers = registers.ok_or_else(|| self.not_in_registers(value))?;
        let elems = cut.own.len() as u64 * u64::from(self.units.threads) * u64::from(ctas - 1);
        let buffer = self.shared_buffer(Content::Parts(value), elems)?;
        Ok(Some(Parts { value, registers, buffer, cut }))
    }

    /// Offset of an access among those of a share: its variable part is that of the thread.
    fn part_at(&mut self, parts: &Parts<'_>, access: i64) -> (Atom, i64) {
        let tid = self.units.tid(&mut self.emit);
        let thread = self.emit.bin(BinOp::Mul, tid, Atom::i32(parts.cut.width.into()));
        (thread, access * i64::from(self.units.threads) * i64::from(parts.cut.width))
    }

    /// Stores the share of the CTA of number `to` into its memory, behind those of the others of lower rank.
    fn send(&mut self, parts: &Parts<'_>, to: u32, rank: Atom, ctas: u32) {
        let Registers { frag, .. } = parts.registers;
        let below = match to {
            _ if ctas == 2 => Atom::i32(0),
            0 => self.emit.add(rank, Atom::i32(-1)),
            to => {
                let above = self.emit.cmp(CmpOp::Gt, rank, Atom::i32(to.into()));
                let less = self.emit.add(rank, Atom::i32(-1));
                self.emit.op(Op::Select, &[above, less, rank])
            }
        };
        let (_, share) = self.part_at(parts, parts.accesses().count() as i64);
        let start = self.emit.bin(BinOp::Mul, below, Atom::i32(share));
        for (n, slots) in parts.accesses() {
            let (thread, constant) = self.part_at(parts, n);
            let base = self.emit.add(thread, start);
            let slot = |slot: &u32| KExpr::Slot { frag, slot: slot + to * parts.cut.next };
            self.emit.stmt(Stmt::StorePeer {
                shared: parts.buffer,
                offset: Emit::sum_expr(Some(base), constant, Ty::I32),
                cta: KExpr::Int(to.into(), Ty::I32),
                values: slots.iter().map(slot).collect(),
            });
        }
    }

    /// Adds up all CTAs' parts of the share of this one, of rank `own`.
    fn add_up(&mut self, parts: &Parts<'_>, own: u32, ctas: u32) {
        let v = self.nest.value(parts.value);
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, .. } = parts.registers;
        let each = parts.accesses().count() as i64;
        self.read_shared(parts.buffer);
        let mut others: Vec<Vec<Var>> = Vec::new();
        for other in 0..i64::from(ctas) - 1 {
            let mut loaded = Vec::new();
            for (n, slots) in parts.accesses() {
                let (thread, constant) = self.part_at(parts, other * each + n);
                let dst: Vec<Var> = slots.iter().map(|_| self.emit.var(Ty::Elem(v.dtype))).collect();
                loaded.extend(&dst);
                self.emit.stmt(Stmt::Load {
                    dst,
                    mem: Mem::Shared(parts.buffer),
                    offset: Emit::sum_expr(Some(thread), constant, Ty::I32),
                    guard: None,
                });
            }
            others.push(loaded);
        }
        for (n, slot) in parts.cut.own.iter().enumerate() {
            let part = |cta: u32| match cta.cmp(&own) {
                Ordering::Less => KExpr::Var(others[cta as usize][n]),
                Ordering::Equal => KExpr::Slot { frag, slot: slot + own * parts.cut.next },
                Ordering::Greater => KExpr::Var(others[cta as usize - 1][n]),
            };
            let join = |a: KExpr, b: KExpr| KExpr::Bin(op, Box::new(a), Box::new(b));
            let sum = (1..ctas).fold(part(0), |sum, cta| join(sum, part(cta)));
            let init = v.init.map(|init| super::walk::literal(init, v.dtype).expr());
            let value = match init {
                Some(init) => join(init, sum),
                None => sum,
            };
            self.emit.stmt(Stmt::Set { frag, slot: *slot, value });
        }
    }
}
