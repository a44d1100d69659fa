//! Elements and vectors that go to memory, where they exist.

use super::{
    build::Pending,
    context::Cx,
    digits,
    emit::{Atom, Emit},
    error::LowerError,
    gather::Place,
    guard::{self, Within},
    linear::{Linear, Offset},
    loads::{self, Lanes},
    memory,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Expr as KExpr, Mem},
    nest::AccessId,
    op::RedOp,
};

/// Where an element of a tensor is stored, by which replica, and whether it exists.
pub(super) fn stored_place(
    cx: &mut Cx<'_>,
    id: AccessId,
    place: Place,
    lanes: Option<Lanes>,
    replica: Option<Atom>,
) -> Result<StoredPlace, LowerError> {
    let tensor = cx.view.nest.access(id).tensor;
    let coords = loads::without_lane(cx, id, place.coords, lanes);
    let guard = exists(cx, id, (&coords, place.guard), lanes, replica);

    let pitches = memory::pitches(cx, tensor);
    let mut offset = Offset::default();
    for (coord, pitch) in coords.iter().zip(pitches) {
        offset.add(pitch, coord);
    }
    memory::write_global(cx, id);
    let ty = cx.view.offset_ty(tensor);
    let mem = cx.view.global(tensor);
    let (base, constant) = cx.build.emit.offset(&offset, ty);
    let t = cx.view.tensor(tensor);
    let dtype = cx.view.nest.elem(tensor);
    if let Some(lanes) = lanes {
        loads::check_aligned(cx, &offset.unit, lanes.steps, dtype, &t.name)?;
    }
    let combine = cx.view.nest.access(id).combines.as_ref().map(|(op, _)| *op);
    Ok(StoredPlace { mem, base, constant, ty, guard, combine })
}

/// Whether an element is stored: its point exists, and so does its place, and it is this replica that stores.
pub(super) fn exists(
    cx: &mut Cx<'_>,
    id: AccessId,
    (coords, leads_inside): (&[Linear], Option<Atom>),
    lanes: Option<Lanes>,
    replica: Option<Atom>,
) -> Option<Atom> {
    let mut within = axes_within(cx, id, lanes);
    within.extend(guard::access_within(cx, id, coords));
    let guard = guard::inside(cx, &within);
    let guard = cx.build.emit.and(guard, leads_inside);
    cx.build.emit.and(guard, replica)
}

/// Stores an element, or holds it back until its vector is complete.
pub(super) fn store_lanes(
    cx: &mut Cx<'_>,
    place: &StoredPlace,
    value: KExpr,
    dtype: DType,
    lanes: Option<Lanes>,
) {
    let Some(lanes) = lanes else {
        emit_store(cx, place, vec![value]);
        return;
    };
    let StoredPlace { mem, base, constant, guard, .. } = *place;
    // The value may be read from a slot that changes before the store is complete.
    let value = cx.build.name(value, dtype);
    let same = |p: &Pending| (p.mem, p.base, p.constant, p.guard) == (mem, base, constant, guard);
    let at = cx.build.unfinished.vectors.iter().position(same).unwrap_or_else(|| {
        let values = vec![None; lanes.steps as usize];
        cx.build.unfinished.vectors.push(Pending { mem, base, constant, guard, values });
        cx.build.unfinished.vectors.len() - 1
    });
    cx.build.unfinished.vectors[at].values[lanes.lane as usize] = Some(value);
    if cx.build.unfinished.vectors[at].values.iter().all(Option::is_some) {
        let done = cx.build.unfinished.vectors.swap_remove(at);
        let values = done.values.into_iter().flatten().collect();
        emit_store(cx, place, values);
    }
}

pub(super) fn emit_store(cx: &mut Cx<'_>, place: &StoredPlace, values: Vec<KExpr>) {
    let StoredPlace { mem, base, constant, ty, guard, combine } = *place;
    let offset = Emit::sum_expr(base, constant, ty);
    let guard = guard.map(Atom::expr);
    cx.build.emit.stmt(match mem {
        mem if let Some(op) = combine => kernel::Stmt::Combine { op, mem, offset, values, guard },
        Mem::Global(global) if cx.env.adding => {
            cx.build.cleared.insert(global);
            kernel::Stmt::Combine { op: RedOp::Add, mem, offset, values, guard }
        }
        mem => kernel::Stmt::Store { mem, offset, values, guard },
    });
    cx.build.emit.forget_loads(|m| m == mem);
}

/// Where the point may leave the extents of the axes of a stored element; a vector is inside or outside as a
/// whole, as its first element is.
pub(super) fn axes_within(cx: &Cx<'_>, id: AccessId, lanes: Option<Lanes>) -> Vec<Within> {
    let access = &cx.view.nest.accesses[id.0 as usize];
    let digits = digits::digits(cx);
    let mut axes: Vec<AxisId> = access.axes().into_iter().collect();
    axes.retain(|a| digits::ragged(cx, *a, &digits));
    let mut within = Vec::new();
    for axis in axes {
        let mut end = guard::end_of(cx, axis);
        // Where the index of a dimension is the axis itself, the tensor's own extent is the same check.
        let mut dims = access.index.iter().zip(&cx.view.tensor(access.tensor).dims).enumerate();
        if dims
            .any(|(n, (i, d))| !access.by.contains_key(&n) && i.as_axis() == Some(axis) && *d == end.extent)
        {
            continue;
        }
        if let Some(l) = lanes.filter(|l| l.axis == axis) {
            end.at.constant -= i64::from(l.lane);
        }
        within.push(end);
    }
    within
}

/// Where an element or a vector is stored.
pub(super) struct StoredPlace {
    pub mem: Mem,
    pub base: Option<Atom>,
    pub constant: i64,
    pub ty: DType,
    pub guard: Option<Atom>,
    /// How the elements are combined with what is there.
    pub combine: Option<RedOp>,
}
