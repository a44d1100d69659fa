//! Reductions across threads: each thread's partial result becomes the result, in every thread.
//!
//! Within a warp by butterfly shuffles, which leave all lanes with the same bits; across warps through shared
//! memory, read in ascending order, so that results are the same in every run.

use super::{
    Lowerer,
    emit::{Atom, Emit},
    error::LowerError,
    linear::Linear,
    storage::{Held, Registers, writers},
    units::{UnitRange, Units},
};
use crate::{
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{Digit, Level, LoopKind, Nest, Stmt, ValueId, WARP},
    op::{BinOp, CmpOp},
    schedule::{Unit, UnitDim},
    shared::{Content, own_loops},
};
use std::collections::BTreeMap;

impl Lowerer<'_> {
    /// Units that hold partial results of a reduction, with a reduced digit bound to each.
    fn partial_units(&self, value: ValueId, first: &Stmt) -> BTreeMap<(Unit, UnitDim), Digit> {
        partial_units(self.nest, &self.units, value, first)
    }

    /// Whether the result of a reduction combines partial results of several threads.
    pub fn is_combined(&self, value: ValueId, first: &Stmt) -> bool {
        !self.partial_units(value, first).is_empty()
    }

    /// Combines the partial results that `first` left in each thread.
    pub fn combine(&mut self, value: ValueId, first: &Stmt) -> Result<(), LowerError> {
        let partial = self.partial_units(value, first);
        let Some(((unit, _), digit)) = partial.first_key_value() else { return Ok(()) };
        let v = &self.nest.values[value.0 as usize];
        let Some(level) = self.nest.combine.get(&value).copied() else {
            return Err(LowerError::Malformed(format!(
                "nothing combines the parts of `{}` over `{}`, bound to {unit:?}",
                v.name,
                self.axis_name(digit.axis)
            )));
        };
        let op = v.reduction.expect("only reductions combine").combine();
        let Some(registers) = self.held(value)?.registers.clone() else {
            return self.combine_in_place(value, first, op);
        };
        let plan = Plan::new(&self.units, partial.keys());
        plan.check(&v.name, level)?;
        self.shuffle(&registers, op, &plan, Ty::Elem(v.dtype));
        self.through_shared(value, &registers, op, &plan)?;
        if let Some(init) = v.init.filter(|_| !self.is_across(value, first)) {
            let init = super::walk::literal(init, v.dtype).expr();
            for slot in 0..registers.slots {
                let old = KExpr::Slot { frag: registers.frag, slot };
                let value = KExpr::Bin(op, Box::new(init.clone()), Box::new(old));
                self.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
            }
        }
        Ok(())
    }

    /// Before a reduction whose partial results accumulate in shared memory: each thread that holds some gets
    /// a place for them beside the others' of the same element.
    pub fn spread_partials(&mut self, value: ValueId, first: &Stmt) -> Result<(), LowerError> {
        let partial: Vec<_> = self.partial_units(value, first).into_keys().collect();
        let held = self.held(value)?.clone();
        let (None, Some(mut shared), false) = (held.registers, held.shared, partial.is_empty()) else {
            return Ok(());
        };
        let mut threads = 1i64;
        let mut place = Linear::default();
        for (unit, dim) in &partial {
            if let Atom::Var(var) = self.units.coordinate(&mut self.emit, *unit, *dim) {
                place.add_scaled(&Linear::var(var), threads);
            }
            threads *= i64::from(self.units.dims[&(*unit, *dim)].extent);
        }
        shared.pitches.values_mut().for_each(|p| *p *= threads);
        shared.buffer = self.shared_buffer(Content::Partial(value), (shared.elems * threads) as u64)?;
        (shared.partial, shared.place) = (partial, place);
        self.held.insert(value, Held { registers: None, shared: Some(shared), ..held });
        Ok(())
    }

    /// Combines partial results that accumulated in shared memory, in ascending order of the threads.
    fn combine_in_place(&mut self, value: ValueId, first: &Stmt, op: BinOp) -> Result<(), LowerError> {
        let v = &self.nest.values[value.0 as usize];
        let held = self.held(value)?.clone();
        let Some(spread) = held.shared.clone() else { return Ok(()) };
        let threads: i64 = spread.partial.iter().map(|u| i64::from(self.units.dims[u].extent)).product();
        let loops = own_loops(self.nest, value, first);
        self.barrier();
        let result = self.shared_box(value, &loops)?;
        self.held.insert(value, Held { shared: Some(result), ..held });
        self.each_element(&loops, &mut |this| {
            let height = this.held(value)?.height;
            let mut at = Linear::default();
            for (axis, pitch) in &spread.pitches {
                at.add_scaled(&this.axis_from(*axis, height), *pitch);
            }
            let (base, constant) = this.emit.index_base(&at);
            let mut total = v.init.map(|init| super::walk::literal(init, v.dtype));
            this.read_shared(spread.buffer);
            for n in 0..threads {
                let var = this.emit.var(Ty::Elem(v.dtype));
                let (mem, offset) = (Mem::Shared(spread.buffer), Emit::sum_expr(base, constant + n, Ty::I32));
                this.emit.stmt(kernel::Stmt::Load { dst: vec![var], mem, offset, guard: None });
                total = Some(match total {
                    None => Atom::Var(var),
                    Some(sum) => this.emit.bin(op, sum, Atom::Var(var)),
                });
            }
            this.store_shared(value, total.expect("at least one partial result").expr())
        })
    }

    fn shuffle(&mut self, registers: &Registers, op: BinOp, plan: &Plan, ty: Ty) {
        let masks = plan
            .lanes
            .iter()
            .flat_map(|r| (0..).map(|b| 1 << b).take_while(|m| *m < r.extent).map(|m| m * r.stride));
        for mask in masks.collect::<Vec<u32>>() {
            for slot in 0..registers.slots {
                let own = KExpr::Slot { frag: registers.frag, slot };
                let dst = self.emit.var(ty);
                self.emit.stmt(kernel::Stmt::Shuffle { dst, value: own.clone(), mask });
                let value = KExpr::Bin(op, Box::new(own), Box::new(KExpr::Var(dst)));
                self.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
            }
        }
    }

    fn through_shared(
        &mut self,
        value: ValueId,
        registers: &Registers,
        op: BinOp,
        plan: &Plan,
    ) -> Result<(), LowerError> {
        if plan.across.is_empty() {
            return Ok(());
        }
        let v = &self.nest.values[value.0 as usize];
        // One element for each slot and each group of threads that agree.
        let mut pitch = i64::from(registers.slots);
        let mut own = Linear::default();
        let mut group = Linear::default();
        let mut strides = Vec::new();
        for (range, reduced) in
            plan.kept.iter().map(|r| (r, false)).chain(plan.across.iter().map(|r| (r, true)))
        {
            if let Atom::Var(var) = self.units.part(&mut self.emit, *range) {
                own.add_scaled(&Linear::var(var), pitch);
                if !reduced {
                    group.add_scaled(&Linear::var(var), pitch);
                }
            }
            if reduced {
                strides.push((pitch, range.extent));
            }
            pitch *= i64::from(range.extent);
        }
        let buffer = self.shared_buffer(Content::Partial(value), pitch as u64)?;
        self.write_shared(buffer);
        let mut guard = None;
        for range in &plan.lanes {
            let lane = self.units.part(&mut self.emit, *range);
            let first = self.emit.cmp(CmpOp::Eq, lane, Atom::i32(0));
            guard = self.emit.and(guard, Some(first));
        }
        let (base, _) = self.emit.index_base(&own);
        for slot in 0..registers.slots {
            self.emit.stmt(kernel::Stmt::Store {
                mem: Mem::Shared(buffer),
                offset: Emit::sum_expr(base, slot.into(), Ty::I32),
                values: vec![KExpr::Slot { frag: registers.frag, slot }],
                guard: guard.map(Atom::expr),
            });
        }
        self.read_shared(buffer);
        let (base, _) = self.emit.index_base(&group);
        let mut offsets = vec![0i64];
        for (pitch, extent) in strides {
            let steps = (0..i64::from(extent)).flat_map(|s| offsets.iter().map(move |o| o + s * pitch));
            offsets = steps.collect();
        }
        for slot in 0..registers.slots {
            let mut total = None;
            for offset in &offsets {
                let var = self.emit.var(Ty::Elem(v.dtype));
                let offset = Emit::sum_expr(base, offset + i64::from(slot), Ty::I32);
                self.emit.stmt(kernel::Stmt::Load {
                    dst: vec![var],
                    mem: Mem::Shared(buffer),
                    offset,
                    guard: None,
                });
                total = Some(match total {
                    None => Atom::Var(var),
                    Some(sum) => self.emit.bin(op, sum, Atom::Var(var)),
                });
            }
            let value = total.expect("at least one partial result").expr();
            self.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
        }
        Ok(())
    }
}

/// Units that hold partial results of a reduction that `first` computes, with a reduced digit bound to each.
fn partial_units(
    nest: &Nest,
    units: &Units,
    value: ValueId,
    first: &Stmt,
) -> BTreeMap<(Unit, UnitDim), Digit> {
    let v = nest.value(value);
    let mut partial = BTreeMap::new();
    if v.reduction.is_none() {
        return partial;
    }
    for (digit, at) in writers(nest, first, value).into_iter().flatten() {
        if let LoopKind::Unit(unit, dim) = at
            && unit != Unit::Block
            && !v.axes.contains(&digit.axis)
            && units.dims.contains_key(&(unit, dim))
        {
            partial.insert((unit, dim), digit);
        }
    }
    partial
}

/// Places in shared memory that combining a reduction takes, for each element of it that a thread holds in registers,
/// or for each element of it if its parts accumulate in shared memory. 0 where shuffles do.
pub(crate) fn places(nest: &Nest, value: ValueId, first: &Stmt, in_place: bool) -> u64 {
    let Ok(units) = Units::of(nest) else { return 0 };
    let partial = partial_units(nest, &units, value, first);
    let product = |ranges: &[UnitRange]| ranges.iter().map(|r| u64::from(r.extent)).product::<u64>();
    if in_place {
        let threads = partial.keys().map(|unit| u64::from(units.dims[unit].extent));
        return if partial.is_empty() { 0 } else { threads.product() };
    }
    let plan = Plan::new(&units, partial.keys());
    if plan.across.is_empty() { 0 } else { product(&plan.kept) * product(&plan.across) }
}

/// How the thread index splits into what is combined and what is not.
struct Plan {
    /// Combined by shuffles.
    lanes: Vec<UnitRange>,
    /// Combined through shared memory.
    across: Vec<UnitRange>,
    /// Not combined.
    kept: Vec<UnitRange>,
    /// Some combined part lies within a warp.
    within_warp: bool,
    /// Some combined part lies across warps.
    across_warps: bool,
    full_warps: bool,
}

impl Plan {
    fn new<'k>(units: &Units, partial: impl Iterator<Item = &'k (Unit, UnitDim)>) -> Plan {
        let partial: Vec<_> = partial.collect();
        let full_warps = units.threads.is_multiple_of(WARP);
        let mut plan = Plan {
            lanes: Vec::new(),
            across: Vec::new(),
            kept: Vec::new(),
            within_warp: false,
            across_warps: false,
            full_warps,
        };
        for (unit, range) in &units.dims {
            if !partial.contains(&unit) {
                plan.kept.push(*range);
                continue;
            }
            let UnitRange { stride, extent } = *range;
            plan.within_warp |= stride < WARP;
            plan.across_warps |= stride * extent > WARP;
            let lanes = (WARP / stride.min(WARP)).min(extent);
            let shuffles = full_warps
                && stride.is_power_of_two()
                && extent.is_multiple_of(lanes)
                && lanes.is_power_of_two();
            if shuffles && lanes > 1 {
                plan.lanes.push(UnitRange { stride, extent: lanes });
                if extent > lanes {
                    plan.across.push(UnitRange { stride: stride * lanes, extent: extent / lanes });
                }
            } else {
                plan.across.push(*range);
            }
        }
        plan
    }

    fn check(&self, value: &str, level: Level) -> Result<(), LowerError> {
        let held = match level {
            Level::Lane if self.across_warps => "several warps",
            Level::Lane if !self.full_warps => "a warp that is not full",
            Level::Lane if !self.across.is_empty() => "a number of lanes that is no power of two",
            Level::Warp if self.within_warp => "lanes of one warp",
            _ => return Ok(()),
        };
        Err(LowerError::Malformed(format!(
            "parts of `{value}` are held across {held}, combined by {level:?}"
        )))
    }
}
