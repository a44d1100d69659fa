//! Reductions whose parts are held by several CTAs (`split_k`).
//!
//! Through a workspace they meet up a binary tree: of two, both leave their registers in global memory, and the one that
//! comes last adds those of the other to its own. Nobody waits, so CTAs need not run at the same time; the tree is fixed
//! and addition commutes, so the result has the same bits in every run. Four CTAs meet once where a thread has registers
//! for half of what it reads then: two levels of the tree with one fence and one count. Slots lie a CTA's threads apart,
//! so that a warp writes whole lines; sums of tensor cores do so four at a time. Atomically each CTA goes on with its
//! part, and what it stores is added.

use super::{
    Lowerer,
    emit::{Atom, Emit, Op},
    error::LowerError,
    storage::{Held, Registers},
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Param, Ty, Var},
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

impl Lowerer<'_> {
    /// How the parts of these values, all of one `let`, come together; `None` where each CTA holds them whole.
    pub fn across(&self, values: &[ValueId]) -> Option<Across> {
        values.iter().find_map(|v| self.nest.across.get(v)).copied()
    }

    /// Adds up the parts, and runs `rest` in the CTA that ends up with all of them.
    pub fn through_workspace(
        &mut self,
        values: &[ValueId],
        rest: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let Some((part, parts)) = self.grid.part else {
            return Err(LowerError::Malformed("no loop is shared out among CTAs".into()));
        };
        let row = self.emit.bin(BinOp::Mul, self.grid.tile, Atom::i32(parts.into()));
        let mut held = Vec::new();
        for value in values.iter().copied() {
            let Held { sum, registers, .. } = self.held(value)?;
            let ctas = sum.and_then(|sum| sum.ctas.as_ref());
            let Some(Ctas::Workspace(plan)) = ctas else { continue };
            let (plan, registers) = (*plan, registers.ok_or_else(|| self.not_in_registers(value))?);
            let v = &self.nest.values[value.0 as usize];
            let threads = self.units.threads;
            let elems = registers.slots * threads;
            let scratch = self.scratch(format!("{}.parts", v.name), v.dtype, elems, false);
            let (elems, threads) = (elems.into(), threads.into());
            held.push(Left { value, registers, scratch, elems, threads, plan });
        }
        let counters = self.scratch("arrivals".into(), DType::I32, 1, true);
        let level = Level { row, part, parts, counters, width: 1 };
        self.combine_nodes(&held, level, rest)
    }

    /// A meeting: sums of `width` parts each, of two nodes or all four, become one. All leave theirs in the workspace, and
    /// whoever comes last goes on.
    fn combine_nodes(
        &mut self,
        held: &[Left<'_>],
        level: Level,
        rest: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let Level { row, part, parts, counters, width } = level;
        if width >= parts {
            for left in held {
                self.add_initial(left);
            }
            return rest(self);
        }
        let wide = Atom::i32(width.into());
        let node = self.emit.bin(BinOp::Div, part, wide);
        let own = self.emit.bin(BinOp::Mul, node, wide);
        // The last node of a level may have no neighbour: it goes on as it is.
        let at_once = held.iter().all(|left| left.plan.at_once);
        let meet = if at_once { QUAD } else { 2 };
        let neighbours: Vec<Atom> = (1..meet)
            .map(|n| {
                let other = self.emit.op(Op::Xor, &[node, Atom::i32(n.into())]);
                self.emit.bin(BinOp::Mul, other, wide)
            })
            .collect();
        let paired = match parts.is_multiple_of(2 * width) {
            true => None,
            false => Some(self.emit.cmp(CmpOp::Lt, neighbours[0], Atom::i32(parts.into()))),
        };
        let own = self.emit.add(row, own);
        let others: Vec<Atom> = neighbours.into_iter().map(|other| self.emit.add(row, other)).collect();
        self.only_if(paired, |this| held.iter().for_each(|w| this.leave_part(w, own)));
        // All know the meeting by the greatest of them.
        let counter = others.iter().fold(own, |most, other| self.emit.bin(BinOp::Max, most, *other));
        let last = self.emit.var(Ty::BOOL);
        self.sync.barrier();
        let (offset, guard) = (counter.expr(), paired.map(Atom::expr));
        let arrive = kernel::Stmt::Arrive { dst: last, counters, offset, parts: meet, guard, group: None };
        self.emit.stmt(arrive);
        self.emit.forget_loads(|_| true);
        self.emit.push();
        self.only_if(paired, |this| held.iter().for_each(|w| this.add_parts(w, &others)));
        self.combine_nodes(held, Level { width: meet * width, ..level }, rest)?;
        let then = self.emit.pop();
        self.emit.stmt(kernel::Stmt::If { cond: KExpr::Var(last), then, otherwise: Vec::new() });
        Ok(())
    }

    pub fn only_if(&mut self, condition: Option<Atom>, body: impl FnOnce(&mut Self)) {
        let condition = match condition {
            None | Some(Atom::Bool(true)) => return body(self),
            Some(Atom::Bool(false)) => return,
            Some(condition) => condition,
        };
        self.emit.push();
        body(self);
        let then = self.emit.pop();
        self.emit.stmt(kernel::Stmt::If { cond: condition.expr(), then, otherwise: Vec::new() });
    }

    /// Where this thread's first elements of a node are.
    fn place_of(&mut self, left: &Left<'_>, node: Atom) -> Atom {
        let tid = self.units.tid(&mut self.emit);
        let thread = self.emit.bin(BinOp::Mul, tid, Atom::i32(left.plan.width.into()));
        let thread = self.emit.op(Op::Cast(Ty::I64), &[thread]);
        let node = self.emit.op(Op::Cast(Ty::I64), &[node]);
        let start = self.emit.bin(BinOp::Mul, node, Atom::Int(left.elems, Ty::I64));
        self.emit.add(start, thread)
    }

    fn leave_part(&mut self, left: &Left<'_>, node: Atom) {
        let base = self.place_of(left, node);
        let Registers { frag, slots, .. } = left.registers;
        for (slots, constant) in left.accesses(0..slots) {
            self.emit.stmt(kernel::Stmt::Store {
                mem: Mem::Global(left.scratch),
                offset: Emit::sum_expr(Some(base), constant, Ty::I64),
                values: slots.map(|slot| KExpr::Slot { frag, slot }).collect(),
                guard: None,
            });
        }
    }

    /// Adds the neighbours' sums to this node's: that of the node beside it, then both of the pair beside theirs.
    fn add_parts(&mut self, left: &Left<'_>, others: &[Atom]) {
        let bases: Vec<Atom> = others.iter().map(|node| self.place_of(left, *node)).collect();
        let v = &self.nest.values[left.value.0 as usize];
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, slots, .. } = left.registers;
        let most = left.plan.batch(slots, others.len() as u32);
        for first in (0..slots).step_by(most as usize) {
            let batch = first..slots.min(first + most);
            let mut loaded: Vec<Vec<KExpr>> = Vec::new();
            for base in &bases {
                let vars: Vec<Var> = batch.clone().map(|_| self.emit.var(Ty::Elem(v.dtype))).collect();
                let accesses = left.accesses(batch.clone());
                for ((_, constant), dst) in accesses.zip(vars.chunks(left.plan.width as usize)) {
                    self.emit.stmt(kernel::Stmt::Load {
                        dst: dst.to_vec(),
                        mem: Mem::Global(left.scratch),
                        offset: Emit::sum_expr(Some(*base), constant, Ty::I64),
                        guard: None,
                    });
                }
                loaded.push(vars.into_iter().map(KExpr::Var).collect());
            }
            for (n, slot) in batch.enumerate() {
                let sum = |a: KExpr, b: KExpr| KExpr::Bin(op, Box::new(a), Box::new(b));
                let of = |node: usize| loaded[node][n].clone();
                let pair = sum(KExpr::Slot { frag, slot }, of(0));
                let value = if others.len() == 1 { pair } else { sum(pair, sum(of(1), of(2))) };
                self.emit.stmt(kernel::Stmt::Set { frag, slot, value });
            }
        }
    }

    fn add_initial(&mut self, left: &Left<'_>) {
        let v = &self.nest.values[left.value.0 as usize];
        let Some(init) = v.init else { return };
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, slots, .. } = left.registers;
        for slot in 0..slots {
            let init = Box::new(super::walk::literal(init, v.dtype).expr());
            let value = KExpr::Bin(op, init, Box::new(KExpr::Slot { frag, slot }));
            self.emit.stmt(kernel::Stmt::Set { frag, slot, value });
        }
    }

    /// Each CTA goes on with its part: what it stores is added. An initial element is the first part's.
    pub fn add_atomically(
        &mut self,
        values: &[ValueId],
        rest: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        for value in values {
            let v = &self.nest.values[value.0 as usize];
            let (Some(init), Some((part, _))) = (v.init, self.grid.part) else { continue };
            let first = self.emit.cmp(CmpOp::Eq, part, Atom::i32(0));
            let zero = super::walk::literal(0.0, v.dtype);
            let init = self.emit.op(Op::Select, &[first, super::walk::literal(init, v.dtype), zero]);
            let Some(registers) = self.held(*value)?.registers else { continue };
            for slot in 0..registers.slots {
                let sum = Box::new(KExpr::Slot { frag: registers.frag, slot });
                let value = KExpr::Bin(BinOp::Add, sum, Box::new(init.expr()));
                self.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
            }
        }
        self.adding = true;
        let result = rest(self);
        self.adding = false;
        result
    }

    /// Parts that the plan has in registers.
    pub fn not_in_registers(&self, value: ValueId) -> LowerError {
        LowerError::Malformed(Unsummed::Shared(value).text(self.nest))
    }

    fn scratch(&mut self, name: String, dtype: DType, elems: u32, zeroed: bool) -> u32 {
        let name = crate::shared::unique(&name, |n| self.params.iter().any(|p| p.name() == n));
        self.params.push(Param::Scratch { name, dtype, elems, zeroed });
        self.params.len() as u32 - 1
    }
}
