//! Reductions across threads: each thread's partial result becomes the result, in every thread.
//!
//! Within a warp by butterfly shuffles, which leave all lanes with the same bits; across warps through shared
//! memory, read in ascending order, so that results are the same in every run.

use super::{
    Lowerer,
    emit::{Atom, Emit},
    error::LowerError,
    linear::Linear,
    storage::{Held, Registers},
};
use crate::{
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{Combination, ValueId},
    op::{BinOp, CmpOp},
    plan::Threads,
    shared::Content,
};

impl Lowerer<'_> {
    /// Combines the partial results that each thread has.
    pub fn combine(&mut self, value: ValueId) -> Result<(), LowerError> {
        let Held { sum: Some(sum), registers, .. } = self.held(value)? else { return Ok(()) };
        let (sum, registers) = (*sum, *registers);
        let v = &self.nest.values[value.0 as usize];
        let op = v.reduction.expect("only reductions combine").combine();
        let (plan, registers) = match (&sum.threads, registers) {
            (None, _) => return Ok(()),
            (Some(Threads::Registers(plan)), Some(registers)) => (plan, registers),
            (Some(_), _) => return self.combine_in_place(value, op),
        };
        self.shuffle(registers, op, plan, Ty::Elem(v.dtype));
        self.through_shared(value, registers, op, plan)?;
        if let Some(init) = v.init.filter(|_| sum.ctas.is_none()) {
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
    pub fn spread_partials(&mut self, value: ValueId) -> Result<(), LowerError> {
        let held = self.held(value)?.clone();
        let threads = held.sum.and_then(|sum| sum.threads.as_ref());
        let (Some(Threads::Shared(partial)), Some(mut shared)) = (threads, held.shared) else {
            return Ok(());
        };
        let mut threads = 1i64;
        let mut place = Linear::default();
        for (unit, dim) in partial {
            if let Atom::Var(var) = self.units.coordinate(&mut self.emit, *unit, *dim) {
                place.add_scaled(&Linear::var(var), threads);
            }
            threads *= i64::from(self.units.dims[&(*unit, *dim)].extent);
        }
        shared.pitches.values_mut().for_each(|p| *p *= threads);
        shared.buffer = self.shared_buffer(Content::Partial(value), (shared.elems * threads) as u64)?;
        (shared.partial, shared.place) = (partial.clone(), place);
        self.held.insert(value, Held { registers: None, shared: Some(shared), ..held });
        Ok(())
    }

    /// Combines partial results that accumulated in shared memory, in ascending order of the threads.
    fn combine_in_place(&mut self, value: ValueId, op: BinOp) -> Result<(), LowerError> {
        let v = &self.nest.values[value.0 as usize];
        let held = self.held(value)?.clone();
        let Some(spread) = held.shared.clone() else { return Ok(()) };
        let threads: i64 = spread.partial.iter().map(|u| i64::from(self.units.dims[u].extent)).product();
        let place = held.place;
        let Some(points) = &place.shared else { return Ok(()) };
        self.barrier();
        let result = self.shared_box(value, points)?;
        self.held.insert(value, Held { shared: Some(result), ..held });
        self.each_element(&place.loops, &mut |this| {
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

    fn shuffle(&mut self, registers: Registers<'_>, op: BinOp, plan: &Combination, ty: Ty) {
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
        registers: Registers<'_>,
        op: BinOp,
        plan: &Combination,
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
