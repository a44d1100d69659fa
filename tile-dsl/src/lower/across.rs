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
    storage::Registers,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Param, Ty, Var},
    nest::{Across, LoopKind, Stmt, Target, ValueId, WIDEST, leaves, writers},
    op::{BinOp, CmpOp},
    schedule::Unit,
};
use std::ops::Range;

/// Parts that may meet at once. Of more, several CTAs read at a time.
const QUAD: u32 = 4;

/// Registers of a thread that are for neither sums nor what is added to them: addresses, and what lives on.
const BESIDE: u32 = 32;

/// Loads of a thread that are on their way together for want of registers: half as many as it has sums.
const fn fewest_in_flight(slots: u32) -> u32 {
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
    /// Elements of an access.
    width: u32,
}

impl Workspace {
    /// The first slot of each access, and by how much it lies behind the thread's first one.
    fn accesses(&self, slots: Range<u32>) -> impl Iterator<Item = (Range<u32>, i64)> {
        let (width, threads) = (self.width, self.threads);
        slots.step_by(width as usize).map(move |slot| (slot..slot + width, i64::from(slot) * threads))
    }
}

/// Slots of a thread that one access of a part takes.
pub(super) fn side_by_side(slots: u32, dtype: DType) -> u32 {
    let most = (WIDEST as u32 / dtype.bytes()).max(1);
    1 << slots.trailing_zeros().min(most.ilog2())
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
            let width = if self.is_product(value) { side_by_side(registers.slots, v.dtype) } else { 1 };
            let (elems, threads) = (elems.into(), threads.into());
            held.push(Workspace { value, registers, scratch, elems, threads, width });
        }
        let counters = self.scratch("arrivals".into(), DType::I32, 1, true);
        let level = Level { row, part, parts, counters, width: 1 };
        self.combine_nodes(&held, level, rest)
    }

    /// A meeting: sums of `width` parts each, of two nodes or all four, become one. All leave theirs in the workspace, and
    /// whoever comes last goes on.
    fn combine_nodes(
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
        let own = self.emit.bin(BinOp::Mul, node, wide);
        // The last node of a level may have no neighbour: it goes on as it is.
        let at_once = parts == QUAD && held.iter().all(|w| self.has_room(w.registers.slots));
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
    fn place_of(&mut self, workspace: &Workspace, node: Atom) -> Atom {
        let tid = self.units.tid(&mut self.emit);
        let thread = self.emit.bin(BinOp::Mul, tid, Atom::i32(workspace.width.into()));
        let thread = self.emit.op(Op::Cast(Ty::I64), &[thread]);
        let node = self.emit.op(Op::Cast(Ty::I64), &[node]);
        let start = self.emit.bin(BinOp::Mul, node, Atom::Int(workspace.elems, Ty::I64));
        self.emit.add(start, thread)
    }

    fn leave_part(&mut self, workspace: &Workspace, node: Atom) {
        let base = self.place_of(workspace, node);
        let Registers { frag, slots, .. } = workspace.registers;
        for (slots, constant) in workspace.accesses(0..slots) {
            self.emit.stmt(kernel::Stmt::Store {
                mem: Mem::Global(workspace.scratch),
                offset: Emit::sum_expr(Some(base), constant, Ty::I64),
                values: slots.map(|slot| KExpr::Slot { frag, slot }).collect(),
                guard: None,
            });
        }
    }

    /// Adds the neighbours' sums to this node's: that of the node beside it, then both of the pair beside theirs.
    fn add_parts(&mut self, workspace: &Workspace, others: &[Atom]) {
        let bases: Vec<Atom> = others.iter().map(|node| self.place_of(workspace, *node)).collect();
        let v = &self.nest.values[workspace.value.0 as usize];
        let op = v.reduction.expect("only reductions have parts").combine();
        let Registers { frag, slots, .. } = workspace.registers;
        // As many are on their way together as there are registers for, in batches of one size.
        let most = self.free_registers(slots).max(fewest_in_flight(slots)).div_ceil(others.len() as u32);
        let most = slots.div_ceil(slots.div_ceil(most)).next_multiple_of(workspace.width);
        for first in (0..slots).step_by(most as usize) {
            let batch = first..slots.min(first + most);
            let mut loaded: Vec<Vec<KExpr>> = Vec::new();
            for base in &bases {
                let vars: Vec<Var> = batch.clone().map(|_| self.emit.var(Ty::Elem(v.dtype))).collect();
                let accesses = workspace.accesses(batch.clone());
                for ((_, constant), dst) in accesses.zip(vars.chunks(workspace.width as usize)) {
                    self.emit.stmt(kernel::Stmt::Load {
                        dst: dst.to_vec(),
                        mem: Mem::Global(workspace.scratch),
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

    /// Whether tensor cores add up a value: its sums lie side by side in registers as it is. Others need not, and the assembler
    /// would pay for it in the loop that computes them.
    fn is_product(&self, value: ValueId) -> bool {
        let mut found = false;
        leaves(&self.nest.body, &mut |path, leaf| {
            let adds = matches!(leaf.leaf(), Some((Target::Value(v), _)) if v == value);
            found |= adds && self.nest.product(path, leaf).is_some();
        });
        found
    }

    /// Registers that a thread of this CTA has beside so many sums, with as many CTAs on an SM as are asked for.
    fn free_registers(&self, slots: u32) -> u32 {
        let resident = self.nest.occupancy.unwrap_or(1) * (self.units.threads + self.nest.producing());
        let each = (self.target.resident_registers() / resident.max(1)).min(self.target.registers());
        each.saturating_sub(slots + BESIDE)
    }

    /// Whether half of what three other CTAs leave can be on its way to a thread together.
    fn has_room(&self, slots: u32) -> bool {
        self.free_registers(slots) >= (QUAD - 1) * slots / 2
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
