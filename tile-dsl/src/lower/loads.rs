//! Loads of elements and vectors, each issued once in a straight line.

use super::{
    context::Cx,
    emit::{Atom, Emit},
    env::{Bound, Staged},
    error::LowerError,
    gather::{self, Place},
    guard,
    linear::{Linear, Offset},
    memory,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Mem},
    nest::{AccessId, Digit, LoopKind, Vector, vector},
    program::Variant,
};

/// A `#vec` loop over consecutive elements: its steps, and this step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    pub axis: AxisId,
    pub steps: u32,
    pub lane: u32,
}

pub(super) fn load_element(cx: &mut Cx<'_>, id: AccessId) -> Result<(Mem, Atom), LowerError> {
    let access = &cx.view.nest.accesses[id.0 as usize];
    let tensor = access.tensor;
    let dtype = cx.view.nest.elem(tensor);
    if let Some(stage) = staged(cx, id) {
        let atom = load_staged(cx, id, &stage, dtype)?;
        return Ok((Mem::Shared(stage.buffer), atom));
    }
    if !access.gathered.is_empty() {
        return Err(LowerError::Malformed("what values say the place of is read beside its copy".into()));
    }
    let place = gather::place(cx, id, &[])?;
    load_global(cx, id, place)
}

/// Element of a tensor in global memory.
fn load_global(cx: &mut Cx<'_>, id: AccessId, place: Place) -> Result<(Mem, Atom), LowerError> {
    let tensor = cx.view.nest.access(id).tensor;
    let dtype = cx.view.nest.elem(tensor);
    let lanes = global_lanes(cx, id)?;
    let coords = without_lane(cx, id, place.coords, lanes);
    let pitches = memory::pitches(cx, tensor);
    let mut offset = Offset::default();
    for (coord, pitch) in coords.iter().zip(pitches) {
        offset.add(pitch, coord);
    }
    if let Some(l) = lanes {
        check_aligned(cx, &offset.unit, l.steps, dtype, &cx.view.tensor(tensor).name.clone())?;
    }
    memory::read_global(cx, id);
    let guard = guard::access_guard(cx, id, &coords);
    let mut guard = cx.build.emit.and(guard, place.guard);
    if cx.view.plan.accesses.in_place.contains(&tensor) {
        guard = cx.build.emit.and(guard, cx.env.owner);
    }
    let ty = cx.view.offset_ty(tensor);
    let (base, constant) = cx.build.emit.offset(&offset, ty);
    let mem = cx.view.global(tensor);
    Ok((mem, load_from(cx, mem, dtype, base, constant, ty, guard, lanes)))
}

/// The innermost stage that an access is read from, if there is one.
pub(super) fn staged<'a>(cx: &Cx<'a>, id: AccessId) -> Option<Staged<'a>> {
    cx.env.stages.iter().rev().find(|s| cx.view.nest.serves(s.of.copy, id)).cloned()
}

/// Offset of an element in the copy that a stage holds.
pub(super) fn staged_offset(cx: &Cx<'_>, id: AccessId, stage: &Staged<'_>) -> Linear {
    let mut offset = Linear::default();
    for (d, index) in cx.view.nest.accesses[id.0 as usize].index.iter().enumerate() {
        let mut local = cx.env.index_from(index, stage.height);
        local.constant += index.constant - stage.of.low[d];
        offset.add_scaled(&local, stage.layout.pitch[d]);
    }
    offset
}

pub(super) fn load_staged(
    cx: &mut Cx<'_>,
    id: AccessId,
    stage: &Staged<'_>,
    dtype: DType,
) -> Result<Atom, LowerError> {
    let access = &cx.view.nest.accesses[id.0 as usize];
    let mut offset = staged_offset(cx, id, stage);
    let name = cx.view.tensor(stage.tensor).name.clone();
    let index = access.index.clone();
    // A loop outside the stage moves the copy, not the place in it.
    let lanes = lanes(
        cx,
        stage.height,
        |digit| {
            let step = index.iter().zip(&stage.layout.pitch);
            step.map(|(i, p)| i.coefficient(digit.axis) * i64::from(digit.stride) * p).sum()
        },
        &name,
    )?;
    if let Some(l) = lanes {
        offset.constant -= i64::from(l.lane);
        check_aligned(cx, &offset, l.steps, dtype, &name)?;
    }
    let (base, constant) = stage.place(&mut cx.build.emit, &offset);
    Ok(load_shared(cx, stage.buffer, dtype, base, constant, lanes))
}

pub(super) fn load_shared(
    cx: &mut Cx<'_>,
    buffer: u32,
    dtype: DType,
    base: Option<Atom>,
    constant: i64,
    lanes: Option<Lanes>,
) -> Atom {
    cx.build.read_shared(buffer);
    load_from(cx, Mem::Shared(buffer), dtype, base, constant, DType::I32, None, lanes)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn load_from(
    cx: &mut Cx<'_>,
    mem: Mem,
    dtype: DType,
    base: Option<Atom>,
    constant: i64,
    ty: DType,
    guard: Option<Atom>,
    lanes: Option<Lanes>,
) -> Atom {
    let (lane, width) = lanes.map_or((0, 1), |l| (l.lane, l.steps));
    let key = |lane: u32| (mem, base, constant + i64::from(lane), guard);
    if let Some(known) = cx.build.emit.find_load(&key(lane)) {
        return Atom::Var(known);
    }
    let dst: Vec<_> = (0..width).map(|_| cx.build.emit.var(dtype)).collect();
    for (lane, var) in (0..).zip(&dst) {
        cx.build.emit.remember_load(key(lane), *var);
    }
    let result = Atom::Var(dst[lane as usize]);
    let offset = Emit::sum_expr(base, constant, ty);
    cx.build.emit.stmt(kernel::Stmt::Load { dst, mem, offset, guard: guard.map(Atom::expr) });
    result
}

/// The vector at the current point of what loops bound at `from` and inside move, and which element of it this is; `moved`
/// says by how many elements a step of a loop moves it.
pub(super) fn lanes(
    cx: &Cx<'_>,
    from: usize,
    moved: impl Fn(Digit) -> i64,
    buffer: &str,
) -> Result<Option<Lanes>, LowerError> {
    let loops = cx.env.stack[from..].iter().map(|b| (b.digit, b.at));
    lanes_of(cx, vector(loops, moved), buffer)
}

/// As [`Cx::lanes`], for an access of global memory; `None` where the variant has no vectors.
pub(super) fn global_lanes(cx: &Cx<'_>, id: AccessId) -> Result<Option<Lanes>, LowerError> {
    if cx.view.variant == Variant::General {
        return Ok(None);
    }
    let access = cx.view.nest.access(id);
    let loops = cx.env.stack.iter().map(|b| (b.digit, b.at));
    lanes_of(cx, cx.view.nest.vector(access, loops), &cx.view.tensor(access.tensor).name)
}

pub(super) fn lanes_of(
    cx: &Cx<'_>,
    vector: Result<Option<Vector>, Digit>,
    buffer: &str,
) -> Result<Option<Lanes>, LowerError> {
    let apart = |digit: Digit| {
        let axis = cx.view.axis_name(digit.axis);
        LowerError::Malformed(format!(
            "steps of the vectorized loop over `{axis}` are not consecutive elements of `{buffer}`"
        ))
    };
    let Some(Vector { digit, steps }) = vector.map_err(apart)?.filter(|v| v.steps > 1) else {
        return Ok(None);
    };
    let bound = cx.env.stack.iter().rev().find(|b| b.digit == digit && b.at == LoopKind::Vec);
    let point = bound.and_then(Bound::fixed).unwrap_or(0);
    Ok(Some(Lanes { axis: digit.axis, steps, lane: (point / i64::from(digit.stride)) as u32 }))
}

/// The coordinates of the first element of the vector.
pub(super) fn without_lane(
    cx: &Cx<'_>,
    id: AccessId,
    mut coords: Vec<Linear>,
    lanes: Option<Lanes>,
) -> Vec<Linear> {
    if let Some(l) = lanes {
        coords[cx.view.nest.contiguous(cx.view.nest.accesses[id.0 as usize].tensor)].constant -=
            i64::from(l.lane);
    }
    coords
}

/// Checks that a vector of `n` elements starting at `offset` is aligned and exists.
pub(super) fn check_aligned(
    cx: &Cx<'_>,
    offset: &Linear,
    n: u32,
    dtype: DType,
    buffer: &str,
) -> Result<(), LowerError> {
    let bytes = n * dtype.bytes();
    if !n.is_power_of_two() || !(4..=16).contains(&bytes) {
        return Err(LowerError::Malformed(format!("a vector of {bytes} bytes of `{buffer}`")));
    }
    if !cx.build.emit.is_multiple(offset, n.into()) {
        return Err(LowerError::Malformed(format!(
            "a vector of {n} elements of `{buffer}` does not always start at a multiple of {n}"
        )));
    }
    Ok(())
}

/// Element of a tensor where values say.
pub(super) fn gather(cx: &mut Cx<'_>, id: AccessId, by: &[Atom]) -> Result<Atom, LowerError> {
    let place = gather::place(cx, id, by)?;
    // Not remembered by its point: beyond an end that is another element's.
    Ok(load_global(cx, id, place)?.1)
}

/// Element of a tensor, from the innermost stage of it or from global memory.
pub(super) fn load(cx: &mut Cx<'_>, id: AccessId) -> Result<Atom, LowerError> {
    let access = &cx.view.nest.accesses[id.0 as usize];
    if !access.gathered.is_empty() {
        // A place in a copy is no point of the tensor.
        return Ok(load_element(cx, id)?.1);
    }
    let point = (access.tensor, access.index.iter().map(|i| cx.env.index(i)).collect());
    if let Some(known) = cx.build.emit.find_point(&point) {
        return Ok(known);
    }
    let (mem, atom) = load_element(cx, id)?;
    // What one thread loads for its store is not there for the others.
    if cx.env.owner.is_none() || !cx.view.plan.accesses.in_place.contains(&point.0) {
        cx.build.emit.remember_point(point, mem, atom);
    }
    Ok(atom)
}
