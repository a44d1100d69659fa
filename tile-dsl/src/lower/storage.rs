//! Where a value lives: in registers by its [`Layout`], in shared memory as a row-major box over its in-tile points.

use super::{
    build::Holds,
    context::Cx,
    control,
    emit::{Atom, Emit},
    env::{Bound, Held, Registers, SharedBox},
    error::LowerError,
    guard,
    linear::Linear,
    sync::Touch,
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem},
    nest::{Layout, LoopKind, Steps, Stmt, ValueBox, ValueId},
    plan::{Place, Unplaced},
    shared::Content,
};
use std::collections::BTreeSet;

/// The slots of a value that the tile at hand has.
pub(super) fn slots_in_tile(cx: &Cx<'_>, registers: &Registers<'_>) -> Vec<u32> {
    cx.view.plan.tiles.slots(registers.layout, cx.env.tile.size)
}

/// What of a value lanes have exchanged in the tile at hand.
pub(super) fn joined_places(cx: &Cx<'_>, value: ValueId) -> Result<Vec<u32>, LowerError> {
    let Held { registers, joined, .. } = held(cx, value)?;
    let (Some(registers), Some((_, join))) = (registers, joined) else { return Ok(Vec::new()) };
    Ok(join.places(&slots_in_tile(cx, registers)))
}

/// Gives a value that `first` computes its place.
pub(super) fn hold(cx: &mut Cx<'_>, value: ValueId, first: &Stmt) -> Result<(), LowerError> {
    let plan = cx.view.plan;
    let Some(place) = plan.places.get(cx.view.nest, value, first) else {
        let name = &cx.view.nest.value(value).name;
        return Err(LowerError::Malformed(format!("no place of `{name}` is planned here")));
    };
    let shared = shared_box(cx, place)?;
    let registers = place.registers.as_ref().map(|layout| registers(cx, place, layout));
    let (height, loops) = (cx.env.stack.len(), cx.build.sync.depth());
    let sum = plan.sums.get(place);
    cx.env.held.insert(value, Held { height, loops, place, sum, registers, joined: None, shared });
    Ok(())
}

fn registers<'a>(cx: &mut Cx<'a>, place: &Place, layout: &'a Layout) -> Registers<'a> {
    let slots = u32::try_from(layout.slots()).unwrap_or(u32::MAX);
    let (nest, holds) = (cx.view.nest, Holds::Value(place.value, place.set));
    let frag = cx.build.fragment(nest, holds, nest.value(place.value).dtype, slots);
    Registers { frag, slots, layout }
}

/// The shared memory of a value in a place, if it has some there.
pub(super) fn shared_box(cx: &Cx<'_>, of: &Place) -> Result<Option<SharedBox>, LowerError> {
    let Some(ValueBox { pitches, .. }) = of.shared.clone() else { return Ok(None) };
    let buffer = cx.view.shared_buffer(Content::Value(of.value), of.nth)?;
    Ok(Some(SharedBox { buffer, pitches, partial: Vec::new(), place: Linear::default() }))
}

/// Fragment and slot of a value at the current point.
pub(super) fn slot(cx: &Cx<'_>, value: ValueId) -> Result<(u32, u32), LowerError> {
    let v = &cx.view.nest.values[value.0 as usize];
    let held = held(cx, value)?;
    let Some(registers) = &held.registers else {
        return Err(LowerError::Malformed(format!("`{}` is not in registers", v.name)));
    };
    let mut slot = 0;
    for axis in &v.axes {
        let mut offset = 0;
        let mut spread = BTreeSet::new();
        let own = |b: &&Bound| b.digit.axis == *axis && b.digit.steps != Steps::Fixed(1);
        for bound in cx.env.stack[held.height..].iter().filter(own) {
            if let LoopKind::Unit(unit, dim) = bound.at {
                spread.insert((unit, dim, bound.digit.stride, bound.digit.steps));
                continue;
            }
            // Slots count the share of this CTA.
            let own = cx.env.share.is_some_and(|s| s.digit == bound.digit).then_some(bound.value.constant);
            let Some(point) = own.or_else(|| bound.fixed()) else {
                let why = Unplaced::RunTime(value, (bound.digit, bound.at));
                return Err(LowerError::Malformed(why.text(cx.view.nest)));
            };
            offset += point;
        }
        if spread != registers.layout.spread(*axis) {
            return Err(LowerError::Malformed(format!(
                "`{}` is held by other threads than those that read it along `{}`",
                v.name,
                cx.view.axis_name(*axis)
            )));
        }
        let Some(part) = registers.layout.slot(*axis, offset) else {
            return Err(LowerError::Malformed(format!(
                "the loops over `{}` that read `{}` reach points that its writer's do not",
                cx.view.axis_name(*axis),
                v.name
            )));
        };
        slot += part;
    }
    Ok((registers.frag, slot))
}

/// Buffer and offset of a value in shared memory at the current point.
pub(super) fn shared_place(cx: &Cx<'_>, value: ValueId) -> Result<Option<(u32, Linear)>, LowerError> {
    let held = held(cx, value)?;
    let Some(place) = &held.shared else { return Ok(None) };
    let mut offset = place.place.clone();
    for (axis, pitch) in &place.pitches {
        offset.add_scaled(&cx.env.axis_from(*axis, held.height), *pitch);
    }
    Ok(Some((place.buffer, offset)))
}

pub(super) fn held<'c, 'a>(cx: &'c Cx<'a>, value: ValueId) -> Result<&'c Held<'a>, LowerError> {
    cx.env.held.get(&value).ok_or_else(|| {
        let name = &cx.view.nest.values[value.0 as usize].name;
        LowerError::Malformed(format!("`{name}` is used outside its let"))
    })
}

/// Stores the current element of a value that lives in shared memory; one of its replicas does.
pub(super) fn store_shared(cx: &mut Cx<'_>, value: ValueId, element: KExpr) -> Result<(), LowerError> {
    let Some((buffer, offset)) = shared_place(cx, value)? else { return Ok(()) };
    // Distinct threads write distinct elements: one barrier, before the first.
    let loops = held(cx, value)?.loops;
    if !cx.build.sync.is_written(Mem::Shared(buffer)) && cx.build.sync.write(Touch::shared(buffer), loops) {
        cx.build.emit_barrier();
    }
    cx.build.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
    let guard = owner_guard(cx, value)?;
    let offset = shared_offset(cx, &offset);
    cx.build.emit.stmt(kernel::Stmt::Store {
        mem: Mem::Shared(buffer),
        offset,
        values: vec![element],
        guard: guard.map(Atom::expr),
    });
    Ok(())
}

/// Of the threads that do the same work, the one that writes a value to shared memory. Threads that hold
/// partial results do not do the same work.
pub(super) fn owner_guard(cx: &mut Cx<'_>, value: ValueId) -> Result<Option<Atom>, LowerError> {
    let partial = held(cx, value)?.shared.as_ref().map(|s| s.partial.clone()).unwrap_or_default();
    Ok(guard::replica_guard(cx, &partial))
}

pub(super) fn shared_offset(cx: &mut Cx<'_>, offset: &Linear) -> KExpr {
    let (base, constant) = cx.build.emit.index_base(offset);
    Emit::sum_expr(base, constant, DType::I32)
}

/// The current element of a reduction that accumulates in shared memory; this thread wrote it.
pub(super) fn load_own(
    cx: &mut Cx<'_>,
    value: ValueId,
    buffer: u32,
    offset: &Linear,
) -> Result<KExpr, LowerError> {
    let dtype = cx.view.nest.values[value.0 as usize].dtype;
    let guard = owner_guard(cx, value)?.map(Atom::expr);
    let offset = shared_offset(cx, offset);
    let var = cx.build.emit.var(dtype);
    cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![var], mem: Mem::Shared(buffer), offset, guard });
    Ok(KExpr::Var(var))
}

/// Writes a combined reduction to its shared buffer.
pub(super) fn publish(cx: &mut Cx<'_>, value: ValueId) -> Result<(), LowerError> {
    let held = held(cx, value)?;
    if held.registers.is_none() || held.shared.is_none() {
        return Ok(());
    }
    let place = held.place;
    control::each_element(cx, &place.loops, &mut |cx| {
        let (frag, slot) = slot(cx, value)?;
        store_shared(cx, value, KExpr::Slot { frag, slot })
    })
}

/// Waits for all groups of products but the youngest; what is read of these values behind it is computed before it, or in it.
pub(super) fn await_products(cx: &mut Cx<'_>, values: &[ValueId], pending: u32) -> Result<(), LowerError> {
    let mut results = Vec::new();
    for value in values {
        let held = held(cx, *value)?;
        let Some(registers) = &held.registers else { continue };
        results.push(match held.joined {
            Some((frag, _)) => (frag, joined_places(cx, *value)?),
            None => (registers.frag, slots_in_tile(cx, registers)),
        });
    }
    cx.build.emit.stmt(kernel::Stmt::Async(kernel::Async::WaitProducts { pending, results }));
    Ok(())
}
