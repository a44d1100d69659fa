//! Expressions: loads are issued once per element and band, vectors where a `#vec` loop asks for them,
//! and every operation on loaded elements is done once however often it is used.

use super::{
    context::Cx,
    emit::{Atom, Emit, Op, literal},
    env::Bound,
    env::Staged,
    error::LowerError,
    fragment, guard,
    linear::{Linear, Offset},
    memory, storage,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::{self, Expr as KExpr, Mem, Ty},
    nest::{AccessId, Digit, Expr, LoopKind, ValueId, Vector, vector},
    program::Variant,
};

/// A lowered expression: one that can be named, or a tree over register slots, which may change.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Atom(Atom),
    Tree(KExpr, Ty),
}

impl Operand {
    pub fn expr(self) -> KExpr {
        match self {
            Operand::Atom(atom) => atom.expr(),
            Operand::Tree(expr, _) => expr,
        }
    }
}

/// A `#vec` loop over consecutive elements: its steps, and this step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    pub axis: AxisId,
    pub steps: u32,
    pub lane: u32,
}

pub(super) fn value(cx: &mut Cx<'_>, expr: &Expr) -> Result<Operand, LowerError> {
    match expr {
        Expr::Load(access) => match fragment::fragment_slot(cx, *access)? {
            Some(slot) => Ok(slot),
            None => Ok(Operand::Atom(load(cx, *access)?)),
        },
        Expr::Get(value) => get(cx, *value),
        Expr::Const(x, dtype) => Ok(Operand::Atom(literal(*x, *dtype))),
        Expr::Scalar(id) => {
            let scalar = &cx.view.nest.kernel.scalars[id.0 as usize];
            let param = cx.view.first_scalar + u32::from(id.0);
            Ok(Operand::Atom(cx.build.emit.scalar(param, super::fixed(scalar.elem))))
        }
        Expr::Iota(axis) => {
            let index = cx.env.axis_from(*axis, 0);
            Ok(Operand::Atom(cx.build.emit.index(&index)))
        }
        Expr::Dim(extent) => Ok(Operand::Atom(cx.build.emit.dim(extent))),
        Expr::Un(op, a) => {
            let a = value(cx, a)?;
            Ok(apply(cx, Op::Un(*op), vec![a]))
        }
        Expr::Bin(op, a, b) => {
            let args = vec![value(cx, a)?, value(cx, b)?];
            let wraps = op.is_arithmetic() && operand_ty(cx, &args[0]) == Ty::I32;
            Ok(apply(cx, if wraps { Op::Wrapping(*op) } else { Op::Bin(*op) }, args))
        }
        Expr::Cmp(op, a, b) => {
            let args = vec![value(cx, a)?, value(cx, b)?];
            Ok(apply(cx, Op::Cmp(*op), args))
        }
        Expr::Select(c, a, b) => {
            let args = vec![value(cx, c)?, value(cx, a)?, value(cx, b)?];
            Ok(apply(cx, Op::Select, args))
        }
        Expr::Cast(dtype, a) => {
            let a = value(cx, a)?;
            Ok(apply(cx, Op::Cast(Ty::Elem(*dtype)), vec![a]))
        }
    }
}

fn operand_ty(cx: &Cx<'_>, operand: &Operand) -> Ty {
    match operand {
        Operand::Atom(atom) => cx.build.emit.ty(*atom),
        Operand::Tree(_, ty) => *ty,
    }
}

fn apply(cx: &mut Cx<'_>, op: Op, args: Vec<Operand>) -> Operand {
    let atoms: Option<Vec<Atom>> = args
        .iter()
        .map(|a| match a {
            Operand::Atom(atom) => Some(*atom),
            Operand::Tree(..) => None,
        })
        .collect();
    if let Some(atoms) = atoms {
        return Operand::Atom(cx.build.emit.op(op, &atoms));
    }
    let ty = match &op {
        Op::Cast(ty) => *ty,
        Op::Cmp(_) => Ty::BOOL,
        Op::Select => operand_ty(cx, &args[1]),
        _ => operand_ty(cx, &args[0]),
    };
    if matches!(op, Op::Cast(_)) && operand_ty(cx, &args[0]) == ty {
        return args.into_iter().next().expect("one operand");
    }
    Operand::Tree(op.expr(args.into_iter().map(Operand::expr).collect()), ty)
}

fn get(cx: &mut Cx<'_>, value: ValueId) -> Result<Operand, LowerError> {
    let dtype = cx.view.nest.values[value.0 as usize].dtype;
    let Some((buffer, offset)) = storage::shared_place(cx, value)? else {
        let (frag, slot) = storage::slot(cx, value)?;
        return Ok(Operand::Tree(KExpr::Slot { frag, slot }, Ty::Elem(dtype)));
    };
    let name = cx.view.nest.values[value.0 as usize].name.clone();
    let held = storage::held(cx, value)?;
    let pitches = held.shared.as_ref().map(|s| s.pitches.clone()).unwrap_or_default();
    let step = |axis| pitches.get(&axis).copied().unwrap_or(0);
    let lanes = lanes(cx, held.height, |d| step(d.axis) * i64::from(d.stride), &name)?;
    let mut base = offset;
    if let Some(l) = lanes {
        base.constant -= i64::from(l.lane);
        check_aligned(cx, &base, l.steps, dtype, &name)?;
    }
    let (atom, constant) = cx.build.emit.index_base(&base);
    Ok(Operand::Atom(load_shared(cx, buffer, dtype, atom, constant, lanes)))
}

/// Element of a tensor, from the innermost stage of it or from global memory.
fn load(cx: &mut Cx<'_>, id: AccessId) -> Result<Atom, LowerError> {
    let access = &cx.view.nest.accesses[id.0 as usize];
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

fn load_element(cx: &mut Cx<'_>, id: AccessId) -> Result<(Mem, Atom), LowerError> {
    let access = &cx.view.nest.accesses[id.0 as usize];
    let tensor = access.tensor;
    let dtype = super::fixed(cx.view.tensor(tensor).elem);
    if let Some(stage) = staged(cx, id) {
        let atom = load_staged(cx, id, &stage, dtype)?;
        return Ok((Mem::Shared(stage.buffer), atom));
    }
    let coords: Vec<Linear> = access.index.iter().map(|i| cx.env.index(i)).collect();
    let lanes = global_lanes(cx, id)?;
    let coords = without_lane(cx, id, coords, lanes);
    let pitches = memory::pitches(cx, tensor);
    let mut offset = Offset::default();
    for (coord, pitch) in coords.iter().zip(pitches) {
        offset.add(pitch, coord);
    }
    if let Some(l) = lanes {
        check_aligned(cx, &offset.unit, l.steps, dtype, &cx.view.tensor(tensor).name.clone())?;
    }
    memory::read_global(cx, id);
    let mut guard = guard::access_guard(cx, id, &coords);
    if cx.view.plan.accesses.in_place.contains(&tensor) {
        guard = cx.build.emit.and(guard, cx.env.owner);
    }
    let ty = cx.view.offset_ty();
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

fn load_staged(cx: &mut Cx<'_>, id: AccessId, stage: &Staged<'_>, dtype: DType) -> Result<Atom, LowerError> {
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
    load_from(cx, Mem::Shared(buffer), dtype, base, constant, Ty::I32, None, lanes)
}

#[allow(clippy::too_many_arguments)]
fn load_from(
    cx: &mut Cx<'_>,
    mem: Mem,
    dtype: DType,
    base: Option<Atom>,
    constant: i64,
    ty: Ty,
    guard: Option<Atom>,
    lanes: Option<Lanes>,
) -> Atom {
    let (lane, width) = lanes.map_or((0, 1), |l| (l.lane, l.steps));
    let key = |lane: u32| (mem, base, constant + i64::from(lane), guard);
    if let Some(known) = cx.build.emit.find_load(&key(lane)) {
        return Atom::Var(known);
    }
    let dst: Vec<_> = (0..width).map(|_| cx.build.emit.var(Ty::Elem(dtype))).collect();
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

fn lanes_of(
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
