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
    across,
    context::Cx,
    control,
    emit::{Atom, Emit, Op, literal},
    env::{Held, Registers, Share},
    error::LowerError,
    storage,
};
use crate::{
    dtype::DType,
    kernel::{Expr as KExpr, Mem, Stmt, Var},
    machine::Via,
    nest::{CopyId, ValueId},
    op::{BinOp, CmpOp},
    plan::{Ctas, Cut},
    shared::{Buffer, Content},
};
use std::cmp::Ordering;

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

/// At the start of the kernel: says that this CTA runs, where others store into bytes that nothing uses before.
pub(super) fn announce(cx: &mut Cx<'_>) {
    let free = |b: &Buffer| b.fresh || !matches!(b.content, Content::Parts(_));
    cx.build.announced = cx.view.nest.cluster_reduces() && cx.view.shared.buffers.iter().all(free);
    if cx.build.announced {
        cx.build.emit.stmt(Stmt::ClusterArrive);
    }
}

/// A barrier of the cluster, which threads of other roles come to as well.
fn barrier(cx: &mut Cx<'_>, barrier: Stmt) {
    cx.build.cluster_barriers.push(barrier.clone());
    cx.build.emit.stmt(barrier);
}

/// Adds up the parts, and runs `rest`: for this CTA's share, or in the first CTA.
pub(super) fn through_cluster<'a>(
    cx: &mut Cx<'a>,
    values: &[ValueId],
    rest: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Some((rank, ctas)) = cx.env.tile.grid.part else {
        return Err(LowerError::Malformed("no loop is shared out among CTAs".into()));
    };
    let share = cx.view.nest.share().map(|digit| Share { digit, ctas, rank });
    let mut all = Vec::new();
    for value in values {
        all.extend(parts(cx, *value)?);
    }
    await_room(cx, &all);
    let going_on = if share.is_some() { ctas } else { 1 };
    for to in 0..going_on {
        let other = cx.build.emit.cmp(CmpOp::Ne, rank, Atom::i32(to.into()));
        control::only_if(cx, Some(other), |cx| all.iter().for_each(|parts| send(cx, parts, to, rank, ctas)));
    }
    cx.build.sync.barrier();
    barrier(cx, Stmt::ClusterBarrier);
    cx.build.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
    cx.env.share = share;
    let result = match share {
        Some(_) => {
            of_rank(cx, rank, (0, ctas), &|cx, own| {
                all.iter().for_each(|parts| add_up(cx, parts, own, ctas));
            });
            rest(cx)
        }
        None => {
            let first = cx.build.emit.cmp(CmpOp::Eq, rank, Atom::i32(0));
            cx.build.emit.push();
            all.iter().for_each(|parts| add_up(cx, parts, 0, ctas));
            let result = rest(cx);
            let then = cx.build.emit.pop();
            cx.build.emit.stmt(Stmt::If { cond: first.expr(), then, otherwise: Vec::new() });
            result
        }
    };
    cx.env.share = None;
    result
}

/// Until the other CTAs run, and the bytes of the parts are free in all of them.
fn await_room(cx: &mut Cx<'_>, all: &[Parts<'_>]) {
    if std::mem::take(&mut cx.build.announced) {
        return barrier(cx, Stmt::ClusterWait);
    }
    let copied = all.iter().any(|parts| {
        let own = &cx.view.shared.buffers[parts.buffer as usize];
        let by_cp_async = |c: CopyId| cx.view.nest.copy(c).via == Via::CpAsync;
        let mut others = cx.view.shared.buffers.iter().filter(|b| b.overlaps(own));
        others.any(|b| matches!(b.content, Content::Copy(c) if by_cp_async(c)))
    });
    if copied {
        cx.build.emit.stmt(Stmt::WaitGroup(0));
    }
    cx.build.sync.barrier();
    barrier(cx, Stmt::ClusterBarrier);
    cx.build.emit.forget_loads(|mem| matches!(mem, Mem::Shared(_)));
}

/// What the CTA of each rank does: which it is, is known while compiling then.
fn of_rank<'a>(cx: &mut Cx<'a>, rank: Atom, (own, end): (u32, u32), body: &dyn Fn(&mut Cx<'a>, u32)) {
    if own + 1 == end {
        return body(cx, own);
    }
    let this_one = cx.build.emit.cmp(CmpOp::Eq, rank, Atom::i32(own.into()));
    cx.build.emit.push();
    body(cx, own);
    let then = cx.build.emit.pop();
    cx.build.emit.push();
    of_rank(cx, rank, (own + 1, end), body);
    let otherwise = cx.build.emit.pop();
    cx.build.emit.stmt(Stmt::If { cond: this_one.expr(), then, otherwise });
}

fn parts<'a>(cx: &Cx<'a>, value: ValueId) -> Result<Option<Parts<'a>>, LowerError> {
    let Held { place, sum, registers, .. } = storage::held(cx, value)?;
    let cut = sum.and_then(|sum| sum.ctas.as_ref());
    let Some(Ctas::Cluster(cut)) = cut else { return Ok(None) };
    let registers = registers.ok_or_else(|| across::not_in_registers(cx, value))?;
    let buffer = cx.view.shared_buffer(Content::Parts(value), place.nth)?;
    Ok(Some(Parts { value, registers, buffer, cut }))
}

/// Offset of an access among those of a share: its variable part is that of the thread.
fn part_at(cx: &mut Cx<'_>, parts: &Parts<'_>, access: i64) -> (Atom, i64) {
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let thread = cx.build.emit.bin(BinOp::Mul, tid, Atom::i32(parts.cut.width.into()));
    (thread, access * i64::from(cx.env.tile.units.threads) * i64::from(parts.cut.width))
}

/// Stores the share of the CTA of number `to` into its memory, behind those of the others of lower rank.
fn send(cx: &mut Cx<'_>, parts: &Parts<'_>, to: u32, rank: Atom, ctas: u32) {
    let Registers { frag, .. } = parts.registers;
    let below = match to {
        _ if ctas == 2 => Atom::i32(0),
        0 => cx.build.emit.add(rank, Atom::i32(-1)),
        to => {
            let above = cx.build.emit.cmp(CmpOp::Gt, rank, Atom::i32(to.into()));
            let less = cx.build.emit.add(rank, Atom::i32(-1));
            cx.build.emit.op(Op::Select, &[above, less, rank])
        }
    };
    let (_, share) = part_at(cx, parts, parts.accesses().count() as i64);
    let start = cx.build.emit.bin(BinOp::Mul, below, Atom::i32(share));
    for (n, slots) in parts.accesses() {
        let (thread, constant) = part_at(cx, parts, n);
        let base = cx.build.emit.add(thread, start);
        let slot = |slot: &u32| KExpr::Slot { frag, slot: slot + to * parts.cut.next };
        cx.build.emit.stmt(Stmt::StorePeer {
            shared: parts.buffer,
            offset: Emit::sum_expr(Some(base), constant, DType::I32),
            cta: KExpr::Int(to.into(), DType::I32),
            values: slots.iter().map(slot).collect(),
        });
    }
}

/// Adds up all CTAs' parts of the share of this one, of rank `own`.
fn add_up(cx: &mut Cx<'_>, parts: &Parts<'_>, own: u32, ctas: u32) {
    let v = cx.view.nest.value(parts.value);
    let op = v.reduction.expect("only reductions have parts").combine();
    let Registers { frag, .. } = parts.registers;
    let each = parts.accesses().count() as i64;
    cx.build.read_shared(parts.buffer);
    let mut others: Vec<Vec<Var>> = Vec::new();
    for other in 0..i64::from(ctas) - 1 {
        let mut loaded = Vec::new();
        for (n, slots) in parts.accesses() {
            let (thread, constant) = part_at(cx, parts, other * each + n);
            let dst: Vec<Var> = slots.iter().map(|_| cx.build.emit.var(v.dtype)).collect();
            loaded.extend(&dst);
            cx.build.emit.stmt(Stmt::Load {
                dst,
                mem: Mem::Shared(parts.buffer),
                offset: Emit::sum_expr(Some(thread), constant, DType::I32),
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
        let join = |a: KExpr, b: KExpr| KExpr::combined(op, v.dtype, a, b);
        let sum = (1..ctas).fold(part(0), |sum, cta| join(sum, part(cta)));
        let init = v.init.map(|init| literal(init, v.dtype).expr());
        let value = match init {
            Some(init) => join(init, sum),
            None => sum,
        };
        cx.build.emit.stmt(Stmt::Set { frag, slot: *slot, value });
    }
}
