//! Reductions whose parts are held by several CTAs (`split_k`).
//!
//! Through a workspace they meet in pairs, then pairs of pairs, up a binary tree: of two, the one that comes first leaves
//! its registers in global memory and is done, and the second adds them to its own. Nobody waits, so CTAs need not run
//! at the same time; the tree is fixed and addition commutes, so the result has the same bits in every run. Slots lie a
//! CTA's threads apart, so that a warp writes whole lines. Atomically each CTA goes on with its part, and what it
//! stores is added.

use super::{
    Lowerer,
    emit::{Atom, Emit, Op},
    error::LowerError,
    storage::Registers,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Param, Ty, Var},
    nest::{Across, LoopKind, Stmt, ValueId, writers},
    op::{BinOp, CmpOp},
    schedule::Unit,
};

/// Loads of a thread that are on their way together: half as many as it has sums, so that there are registers.
const fn in_flight(slots: u32) -> u32 {
    if slots > 2 { slots.div_ceil(2) } else { slots }
}

/// Where the parts of a value are left.
struct Workspace {
    value: ValueId,
    registers: Registers,
    scratch: u32,
    /// Elements of one part.
    elems: i64,
    threads: i64,
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

    /// Whether `first` leaves parts of `value` in several CTAs.
    pub fn is_across(&self, value: ValueId, first: &Stmt) -> bool {
        let v = &self.nest.values[value.0 as usize];
        writers(self.nest, first, value)
            .into_iter()
            .flatten()
            .any(|(digit, at)| matches!(at, LoopKind::Unit(Unit::Block, _)) && !v.axes.contains(&digit.axis))
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
        let across = values.iter().filter(|v| self.nest.across.contains_key(v)).copied();
        let across: Vec<ValueId> = across.collect();
        let row = self.emit.bin(BinOp::Mul, self.grid.tile, Atom::i32(parts.into()));
        let mut held = Vec::new();
        for value in across {
            let v = &self.nest.values[value.0 as usize];
            let Some(registers) = self.held(value)?.registers.clone() else {
                return Err(LowerError::Malformed(format!("parts of `{}` are not in registers", v.name)));
            };
            let threads = self.units.threads;
            let elems = registers.slots * threads;
            let scratch = self.scratch(format!("{}.parts", v.name), v.dtype, elems, false);
            held.push(Workspace { value, registers, scratch, elems: elems.into(), threads: threads.into() });
        }
        let counters = self.scratch("arrivals".into(), DType::I32, 1, true);
        let level = Level { row, part, parts, counters, width: 1 };
        self.combine_pairs(&held, level, rest)
    }

    /// One level of the tree: the sum of `width` parts at hand and that of its neighbour become one. Whoever comes
    /// first leaves its sum in the workspace, whoever comes second goes on with both.
    fn combine_pairs(
        &mut self,
        held: &[Workspace],
        level: Level,
        rest: impl FnOnce(&mut Self) -> Result<(), LowerError>,
    ) -> Result<(), LowerError> {
        let Level { row, part, parts, counters, width } = level;
        if width >= parts {
            for workspace in held {
                self.add_initial(workspace);
            }
            return rest(self);
        }
        let wide = Atom::i32(width.into());
        let node = self.emit.bin(BinOp::Div, part, wide);
        let other = self.emit.op(Op::Xor, &[node, Atom::i32(1)]);
        let own = self.emit.bin(BinOp::Mul, node, wide);
        let other = self.emit.bin(BinOp::Mul, other, wide);
        // The last node of a level may have no neighbour: it goes on as it is.
        let paired = match parts.is_multiple_of(2 * width) {
            true => None,
            false => Some(self.emit.cmp(CmpOp::Lt, other, Atom::i32(parts.into()))),
        };
        let own = self.emit.add(row, own);
        let other = self.emit.add(row, other);
        self.only_if(paired, |this| held.iter().for_each(|w| this.leave_part(w, own)));
        // Both know the pair by the greater of them.
        let counter = self.emit.bin(BinOp::Max, own, other);
        let second = self.emit.var(Ty::BOOL);
        self.sync.barrier();
        let (offset, guard) = (counter.expr(), paired.map(Atom::expr));
        self.emit.stmt(kernel::Stmt::Arrive { dst: second, counters, offset, parts: 2, guard });
        self.emit.forget_loads(|_| true);
        self.emit.push();
        self.only_if(paired, |this| held.iter().for_each(|w| this.add_part(w, other)));
        self.combine_pairs(held, Level { width: 2 * width, ..level }, rest)?;
        let then = self.emit.pop();
        self.emit.stmt(kernel::Stmt::If { cond: KExpr::Var(second), then, otherwise: Vec::new() });
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

    /// Where this thread's elements of a node are: the slots follow one another, a CTA's threads apart.
    fn place_of(&mut self, workspace: &Workspace, node: Atom) -> Atom {
        let tid = self.units.tid(&mut self.emit);
        let thread = self.emit.op(Op::Cast(Ty::I64), &[tid]);
        let node = self.emit.op(Op::Cast(Ty::I64), &[node]);
        let start = self.emit.bin(BinOp::Mul, node, Atom::Int(workspace.elems, Ty::I64));
        self.emit.add(start, thread)
    }

    fn leave_part(&mut self, workspace: &Workspace, node: Atom) {
        let base = self.place_of(workspace, node);
        let Registers { frag, slots, .. } = workspace.registers;
        for slot in 0..slots {
            self.emit.stmt(kernel::Stmt::Store {
                mem: Mem::Global(workspace.scratch),
                offset: Emit::sum_expr(Some(base), i64::from(slot) * workspace.threads, Ty::I64),
                values: vec![KExpr::Slot { frag, slot }],
                guard: None,
            });
        }
    }

    fn add_part(&mut self, workspace: &Workspace, node: Atom) {
        let base = self.place_of(workspace, node);
        let v = &self.nest.values[workspace.value.0 as usize];
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, slots, .. } = workspace.registers;
        for first in (0..slots).step_by(in_flight(slots) as usize) {
            let batch = first..slots.min(first + in_flight(slots));
            let loaded: Vec<Var> = batch.clone().map(|_| self.emit.var(Ty::Elem(v.dtype))).collect();
            for (slot, var) in batch.clone().zip(&loaded) {
                self.emit.stmt(kernel::Stmt::Load {
                    dst: vec![*var],
                    mem: Mem::Global(workspace.scratch),
                    offset: Emit::sum_expr(Some(base), i64::from(slot) * workspace.threads, Ty::I64),
                    guard: None,
                });
            }
            for (slot, var) in batch.zip(loaded) {
                let sum = Box::new(KExpr::Slot { frag, slot });
                let value = KExpr::Bin(op, sum, Box::new(KExpr::Var(var)));
                self.emit.stmt(kernel::Stmt::Set { frag, slot, value });
            }
        }
    }

    fn add_initial(&mut self, workspace: &Workspace) {
        let v = &self.nest.values[workspace.value.0 as usize];
        let Some(init) = v.init else { return };
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, slots, .. } = workspace.registers;
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
            let Some(registers) = self.held(*value)?.registers.clone() else { continue };
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

    fn scratch(&mut self, name: String, dtype: DType, elems: u32, zeroed: bool) -> u32 {
        let name = crate::shared::unique(&name, |n| self.params.iter().any(|p| p.name() == n));
        self.params.push(Param::Scratch { name, dtype, elems, zeroed });
        self.params.len() as u32 - 1
    }
}
