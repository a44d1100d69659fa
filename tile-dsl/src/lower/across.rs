//! Reductions whose parts are held by several CTAs (`split_k`).
//!
//! Through a workspace they are added up a binary tree: of two, both leave their registers in global memory, and the one that
//! comes last adds those of the other to its own. Nobody waits, so CTAs need not run at the same time; the tree is fixed
//! and addition commutes, so the result has the same bits in every run. Four CTAs combine at once where a thread has registers
//! for half of what it reads then: two levels of the tree with one fence and one count. Slots lie a CTA's threads apart,
//! so that a warp writes whole lines; sums of tensor cores do so four at a time. Atomically each CTA goes on with its
//! part, and what it stores is added.

use super::{
    context::Cx,
    control,
    emit::{Atom, Emit, Op, literal},
    env::{Held, Registers},
    error::LowerError,
    storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Param, Var},
    nest::{Across, ValueId},
    op::{BinOp, CmpOp},
    plan::{Ctas, QUAD, Unsummed, Workspace},
};
use std::ops::Range;

/// Where the parts of a value are left.
struct Left<'a> {
    value: ValueId,
    registers: Registers<'a>,
    scratch: u32,
    /// Elements of one part.
    elems: i64,
    threads: i64,
    plan: Workspace,
}

impl Left<'_> {
    /// The first slot of each access, and by how much it lies behind the thread's first one.
    fn accesses(&self, slots: Range<u32>) -> impl Iterator<Item = (Range<u32>, i64)> {
        let (width, threads) = (self.plan.width, self.threads);
        slots.step_by(width as usize).map(move |slot| (slot..slot + width, i64::from(slot) * threads))
    }
}

/// A level of the tree.
#[derive(Clone, Copy)]
struct Level {
    /// First part of this tile among those of all.
    row: Atom,
    /// This CTA's part.
    part: Atom,
    parts: u32,
    counters: u32,
    /// Parts that a node has added up.
    width: u32,
}

/// How the parts of these values, all of one `let`, come together; `None` where each CTA holds them whole.
pub(super) fn across(cx: &Cx<'_>, values: &[ValueId]) -> Option<Across> {
    values.iter().find_map(|v| cx.view.nest.across.get(v)).copied()
}

/// Adds up the parts, and runs `rest` in the CTA that ends up with all of them.
pub(super) fn through_workspace<'a>(
    cx: &mut Cx<'a>,
    values: &[ValueId],
    rest: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Some((part, parts)) = cx.env.tile.grid.part else {
        return Err(LowerError::Malformed("no loop is shared out among CTAs".into()));
    };
    let row = cx.build.emit.bin(BinOp::Mul, cx.env.tile.grid.tile, Atom::i32(parts.into()));
    let mut held = Vec::new();
    for value in values.iter().copied() {
        let Held { sum, registers, .. } = storage::held(cx, value)?;
        let ctas = sum.and_then(|sum| sum.ctas.as_ref());
        let Some(Ctas::Workspace(plan)) = ctas else { continue };
        let (plan, registers) = (*plan, registers.ok_or_else(|| not_in_registers(cx, value))?);
        let v = &cx.view.nest.values[value.0 as usize];
        let threads = cx.env.tile.units.threads;
        let elems = registers.slots * threads;
        let scratch = scratch(cx, format!("{}.parts", v.name), v.dtype, elems, false);
        let (elems, threads) = (elems.into(), threads.into());
        held.push(Left { value, registers, scratch, elems, threads, plan });
    }
    let counters = scratch(cx, "arrivals".into(), DType::I32, 1, true);
    let level = Level { row, part, parts, counters, width: 1 };
    combine_nodes(cx, &held, level, rest)
}

/// A meeting: sums of `width` parts each, of two nodes or all four, become one. All leave theirs in the workspace, and
/// whoever comes last goes on.
fn combine_nodes<'a>(
    cx: &mut Cx<'a>,
    held: &[Left<'_>],
    level: Level,
    rest: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let Level { row, part, parts, counters, width } = level;
    if width >= parts {
        for left in held {
            add_initial(cx, left);
        }
        return rest(cx);
    }
    let wide = Atom::i32(width.into());
    let node = cx.build.emit.bin(BinOp::Div, part, wide);
    let own = cx.build.emit.bin(BinOp::Mul, node, wide);
    // The last node of a level may have no neighbour: it goes on as it is.
    let at_once = held.iter().all(|left| left.plan.at_once);
    let parts_at_once = if at_once { QUAD } else { 2 };
    let neighbours: Vec<Atom> = (1..parts_at_once)
        .map(|n| {
            let other = cx.build.emit.op(Op::Bin(BinOp::Xor), &[node, Atom::i32(n.into())]);
            cx.build.emit.bin(BinOp::Mul, other, wide)
        })
        .collect();
    let paired = match parts.is_multiple_of(2 * width) {
        true => None,
        false => Some(cx.build.emit.cmp(CmpOp::Lt, neighbours[0], Atom::i32(parts.into()))),
    };
    let own = cx.build.emit.add(row, own);
    let others: Vec<Atom> = neighbours.into_iter().map(|other| cx.build.emit.add(row, other)).collect();
    control::only_if(cx, paired, |cx| held.iter().for_each(|w| leave_part(cx, w, own)));
    // All know the meeting by the greatest of them.
    let counter = others.iter().fold(own, |most, other| cx.build.emit.bin(BinOp::Max, most, *other));
    let last = cx.build.emit.var(DType::Bool);
    cx.build.sync.barrier();
    let (offset, guard) = (counter.expr(), paired.map(Atom::expr));
    let arrive = kernel::Stmt::Arrive {
        dst: last,
        counters,
        offset,
        parts: Atom::i32(parts_at_once.into()).expr(),
        guard,
        group: None,
    };
    cx.build.emit.stmt(arrive);
    cx.build.emit.forget_loads(|_| true);
    cx.build.emit.push();
    control::only_if(cx, paired, |cx| held.iter().for_each(|w| add_parts(cx, w, &others)));
    combine_nodes(cx, held, Level { width: parts_at_once * width, ..level }, rest)?;
    let then = cx.build.emit.pop();
    cx.build.emit.stmt(kernel::Stmt::If { cond: KExpr::Var(last), then, otherwise: Vec::new() });
    Ok(())
}

/// Where this thread's first elements of a node are.
fn place_of(cx: &mut Cx<'_>, left: &Left<'_>, node: Atom) -> Atom {
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let thread = cx.build.emit.bin(BinOp::Mul, tid, Atom::i32(left.plan.width.into()));
    let thread = cx.build.emit.op(Op::Cast(DType::I64), &[thread]);
    let node = cx.build.emit.op(Op::Cast(DType::I64), &[node]);
    let start = cx.build.emit.bin(BinOp::Mul, node, Atom::Int(left.elems, DType::I64));
    cx.build.emit.add(start, thread)
}

fn leave_part(cx: &mut Cx<'_>, left: &Left<'_>, node: Atom) {
    let base = place_of(cx, left, node);
    let Registers { frag, slots, .. } = left.registers;
    for (slots, constant) in left.accesses(0..slots) {
        cx.build.emit.stmt(kernel::Stmt::Store {
            mem: Mem::Global(left.scratch),
            offset: Emit::sum_expr(Some(base), constant, DType::I64),
            values: slots.map(|slot| KExpr::Slot { frag, slot }).collect(),
            guard: None,
        });
    }
}

/// Adds the neighbours' sums to this node's: that of the node beside it, then both of the pair beside theirs.
fn add_parts(cx: &mut Cx<'_>, left: &Left<'_>, others: &[Atom]) {
    let bases: Vec<Atom> = others.iter().map(|node| place_of(cx, left, *node)).collect();
    let v = &cx.view.nest.values[left.value.0 as usize];
    let op = v.reduction.expect("only reductions have parts").combine();
    let Registers { frag, slots, .. } = left.registers;
    let most = left.plan.batch(slots, others.len() as u32);
    for first in (0..slots).step_by(most as usize) {
        let batch = first..slots.min(first + most);
        let mut loaded: Vec<Vec<KExpr>> = Vec::new();
        for base in &bases {
            let vars: Vec<Var> = batch.clone().map(|_| cx.build.emit.var(v.dtype)).collect();
            let accesses = left.accesses(batch.clone());
            for ((_, constant), dst) in accesses.zip(vars.chunks(left.plan.width as usize)) {
                cx.build.emit.stmt(kernel::Stmt::Load {
                    dst: dst.to_vec(),
                    mem: Mem::Global(left.scratch),
                    offset: Emit::sum_expr(Some(*base), constant, DType::I64),
                    guard: None,
                });
            }
            loaded.push(vars.into_iter().map(KExpr::Var).collect());
        }
        for (n, slot) in batch.enumerate() {
            let sum = |a: KExpr, b: KExpr| KExpr::combined(op, v.dtype, a, b);
            let of = |node: usize| loaded[node][n].clone();
            let pair = sum(KExpr::Slot { frag, slot }, of(0));
            let value = if others.len() == 1 { pair } else { sum(pair, sum(of(1), of(2))) };
            cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
        }
    }
}

fn add_initial(cx: &mut Cx<'_>, left: &Left<'_>) {
    let v = &cx.view.nest.values[left.value.0 as usize];
    let Some(init) = v.init else { return };
    let op = v.reduction.expect("only reductions have parts").combine();
    let Registers { frag, slots, .. } = left.registers;
    for slot in 0..slots {
        let init = literal(init, v.dtype).expr();
        let value = KExpr::combined(op, v.dtype, init, KExpr::Slot { frag, slot });
        cx.build.emit.stmt(kernel::Stmt::Set { frag, slot, value });
    }
}

/// Each CTA goes on with its part: what it stores is added. An initial element is the first part's.
pub(super) fn add_atomically<'a>(
    cx: &mut Cx<'a>,
    values: &[ValueId],
    rest: impl FnOnce(&mut Cx<'a>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    for value in values {
        let v = &cx.view.nest.values[value.0 as usize];
        let (Some(init), Some((part, _))) = (v.init, cx.env.tile.grid.part) else { continue };
        let first = cx.build.emit.cmp(CmpOp::Eq, part, Atom::i32(0));
        let zero = literal(0.0, v.dtype);
        let init = cx.build.emit.op(Op::Select, &[first, literal(init, v.dtype), zero]);
        let Some(registers) = storage::held(cx, *value)?.registers else { continue };
        for slot in 0..registers.slots {
            let sum = KExpr::Slot { frag: registers.frag, slot };
            let value = KExpr::combined(BinOp::Add, v.dtype, sum, init.expr());
            cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
        }
    }
    cx.env.adding = true;
    let result = rest(cx);
    cx.env.adding = false;
    result
}

/// Parts that the plan has in registers.
pub(super) fn not_in_registers(cx: &Cx<'_>, value: ValueId) -> LowerError {
    LowerError::Malformed(Unsummed::Shared(value).text(cx.view.nest))
}

/// Global memory that the launch provides, so many elements for each CTA.
pub(super) fn scratch(cx: &mut Cx<'_>, name: String, dtype: DType, elems: u32, zeroed: bool) -> u32 {
    let name = crate::shared::unique(&name, |n| cx.build.params.iter().any(|p| p.name() == n));
    cx.build.params.push(Param::Scratch { name, dtype, elems, zeroed });
    cx.build.params.len() as u32 - 1
}
