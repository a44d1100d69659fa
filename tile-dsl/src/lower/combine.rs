//! Reductions across threads: each thread's partial result becomes the result, in every thread.
//!
//! Within a warp by butterfly shuffles, which leave all lanes with the same bits; across warps through shared
//! memory, read in ascending order, so that results are the same in every run.

use super::{
    context::Cx,
    control,
    emit::{Atom, Emit, literal},
    env::{Held, Registers},
    error::LowerError,
    linear::Linear,
    scan, storage,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem},
    nest::{Combination, ValueId},
    op::{BinOp, CmpOp},
    plan::Threads,
    shared::Content,
};

/// Combines the partial results that each thread has.
pub(super) fn combine(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let Held { sum: Some(sum), registers, .. } = storage::held(cx, value)? else { return Ok(()) };
    let (sum, registers) = (*sum, *registers);
    let v = &cx.view.nest.values[value.0 as usize];
    if v.scan.is_some() {
        return scan::finish(cx, value);
    }
    let op = v.reduction.expect("only reductions combine").combine();
    let (plan, registers) = match (&sum.threads, registers) {
        (None, _) => return Ok(()),
        (Some(Threads::Registers(plan)), Some(registers)) => (plan, registers),
        (Some(Threads::Scanned(_)), _) => return Ok(()),
        (Some(_), _) => return combine_in_place(cx, value, op),
    };
    shuffle(cx, registers, op, plan, v.dtype);
    through_shared(cx, value, registers, op, plan)?;
    if let Some(init) = v.init.filter(|_| sum.ctas.is_none()) {
        let init = literal(init, v.dtype).expr();
        for slot in 0..registers.slots {
            let old = KExpr::Slot { frag: registers.frag, slot };
            let value = KExpr::combined(op, v.dtype, init.clone(), old);
            cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
        }
    }
    Ok(())
}

/// Before a reduction whose partial results accumulate in shared memory: each thread that holds some gets
/// a place for them beside the others' of the same element.
pub(super) fn spread_partials(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let held = storage::held(cx, value)?.clone();
    let threads = held.sum.and_then(|sum| sum.threads.as_ref());
    let (Some(Threads::Shared(partial)), Some(mut shared)) = (threads, held.shared) else {
        return Ok(());
    };
    let mut threads = 1i64;
    let mut place = Linear::default();
    for (unit, dim) in partial {
        if let Atom::Var(var) = cx.env.tile.units.coordinate(&mut cx.build.emit, *unit, *dim) {
            place.add_scaled(&Linear::var(var), threads);
        }
        threads *= i64::from(cx.env.tile.units.dims[&(*unit, *dim)].extent);
    }
    shared.pitches.values_mut().for_each(|p| *p *= threads);
    shared.buffer = cx.view.shared_buffer(Content::Partial(value), held.place.nth)?;
    (shared.partial, shared.place) = (partial.clone(), place);
    cx.env.held.insert(value, Held { registers: None, shared: Some(shared), ..held });
    Ok(())
}

/// Combines partial results that accumulated in shared memory, in ascending order of the threads.
fn combine_in_place(cx: &mut Cx<'_>, value: ValueId, op: BinOp) -> Result<(), LowerError> {
    let v = &cx.view.nest.values[value.0 as usize];
    let held = storage::held(cx, value)?.clone();
    let Some(spread) = held.shared.clone() else { return Ok(()) };
    let threads: i64 = spread.partial.iter().map(|u| i64::from(cx.env.tile.units.dims[u].extent)).product();
    let place = held.place;
    cx.build.barrier();
    let result = storage::shared_box(cx, place)?;
    cx.env.held.insert(value, Held { shared: result, ..held });
    control::each_element(cx, &place.loops, &mut |cx| {
        let height = storage::held(cx, value)?.height;
        let mut at = Linear::default();
        for (axis, pitch) in &spread.pitches {
            at.add_scaled(&cx.env.axis_from(*axis, height), *pitch);
        }
        let (base, constant) = cx.build.emit.index_base(&at);
        let mut total = v.init.map(|init| literal(init, v.dtype));
        cx.build.read_shared(spread.buffer);
        for n in 0..threads {
            let var = cx.build.emit.var(v.dtype);
            let (mem, offset) = (Mem::Shared(spread.buffer), Emit::sum_expr(base, constant + n, DType::I32));
            cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![var], mem, offset, guard: None });
            total = Some(match total {
                None => Atom::Var(var),
                Some(sum) => cx.build.emit.combined(op, v.dtype, sum, Atom::Var(var)),
            });
        }
        storage::store_shared(cx, value, total.expect("at least one partial result").expr())
    })
}

fn shuffle(cx: &mut Cx<'_>, registers: Registers<'_>, op: BinOp, plan: &Combination, dtype: DType) {
    let masks = plan
        .lanes
        .iter()
        .flat_map(|r| (0..).map(|b| 1 << b).take_while(|m| *m < r.extent).map(|m| m * r.stride));
    for mask in masks.collect::<Vec<u32>>() {
        for slot in 0..registers.slots {
            let own = KExpr::Slot { frag: registers.frag, slot };
            let dst = cx.build.emit.var(dtype);
            cx.build.emit.stmt(kernel::Stmt::Shuffle { dst, value: own.clone(), mask });
            let value = KExpr::combined(op, dtype, own, KExpr::Var(dst));
            cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
        }
    }
}

fn through_shared(
    cx: &mut Cx<'_>,
    value: ValueId,
    registers: Registers<'_>,
    op: BinOp,
    plan: &Combination,
) -> Result<(), LowerError> {
    if plan.across.is_empty() {
        return Ok(());
    }
    let v = &cx.view.nest.values[value.0 as usize];
    // One element for each slot and each group of threads that agree.
    let mut pitch = i64::from(registers.slots);
    let mut own = Linear::default();
    let mut group = Linear::default();
    let mut strides = Vec::new();
    for (range, reduced) in plan.kept.iter().map(|r| (r, false)).chain(plan.across.iter().map(|r| (r, true)))
    {
        if let Atom::Var(var) = cx.env.tile.units.part(&mut cx.build.emit, *range) {
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
    let place = storage::held(cx, value)?.place;
    let buffer = cx.view.shared_buffer(Content::Partial(value), place.nth)?;
    cx.build.write_shared(buffer);
    let mut guard = None;
    for range in &plan.lanes {
        let lane = cx.env.tile.units.part(&mut cx.build.emit, *range);
        let first = cx.build.emit.cmp(CmpOp::Eq, lane, Atom::i32(0));
        guard = cx.build.emit.and(guard, Some(first));
    }
    let (base, _) = cx.build.emit.index_base(&own);
    for slot in 0..registers.slots {
        cx.build.emit.stmt(kernel::Stmt::Store {
            mem: Mem::Shared(buffer),
            offset: Emit::sum_expr(base, slot.into(), DType::I32),
            values: vec![KExpr::Slot { frag: registers.frag, slot }],
            guard: guard.map(Atom::expr),
        });
    }
    cx.build.read_shared(buffer);
    let (base, _) = cx.build.emit.index_base(&group);
    let mut offsets = vec![0i64];
    for (pitch, extent) in strides {
        let steps = (0..i64::from(extent)).flat_map(|s| offsets.iter().map(move |o| o + s * pitch));
        offsets = steps.collect();
    }
    for slot in 0..registers.slots {
        let mut total = None;
        for offset in &offsets {
            let var = cx.build.emit.var(v.dtype);
            let offset = Emit::sum_expr(base, offset + i64::from(slot), DType::I32);
            cx.build.emit.stmt(kernel::Stmt::Load {
                dst: vec![var],
                mem: Mem::Shared(buffer),
                offset,
                guard: None,
            });
            total = Some(match total {
                None => Atom::Var(var),
                Some(sum) => cx.build.emit.combined(op, v.dtype, sum, Atom::Var(var)),
            });
        }
        let value = total.expect("at least one partial result").expr();
        cx.build.emit.stmt(kernel::Stmt::Set { frag: registers.frag, slot, value });
    }
    Ok(())
}
