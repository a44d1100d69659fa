//! Expressions: loads are issued once per element and band, vectors where a `#vec` loop asks for them,
//! and every operation on loaded elements is done once however often it is used.

use super::{
    context::Cx,
    emit::{Atom, Op, literal},
    error::LowerError,
    held,
    linear::Linear,
    loads, storage,
};
use crate::{
    dtype::DType,
    index::AxisId,
    kernel::Expr as KExpr,
    nest::{AccessId, Expr, Recurrence, Steps, ValueId},
    op::{BinOp, CmpOp, UnOp},
    tile::Edge,
};

/// A lowered expression: one that can be named, or a tree over register slots, which may change.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Atom(Atom),
    Tree(KExpr, DType),
}

impl Operand {
    pub fn expr(self) -> KExpr {
        match self {
            Operand::Atom(atom) => atom.expr(),
            Operand::Tree(expr, _) => expr,
        }
    }
}

pub(super) fn value(cx: &mut Cx<'_>, expr: &Expr) -> Result<Operand, LowerError> {
    match without_ones(cx, expr) {
        Expr::Load(access) => match fragment_slot(cx, *access)? {
            Some(slot) => Ok(slot),
            None => Ok(Operand::Atom(loads::load(cx, *access)?)),
        },
        Expr::Gather(access, by) => {
            let by = by.iter().map(|value| named(cx, value)).collect::<Result<Vec<Atom>, _>>()?;
            Ok(Operand::Atom(loads::gather(cx, *access, &by)?))
        }
        Expr::Scatter { .. } => Err(LowerError::Malformed("a scatter that is not stored".into())),
        Expr::Get(value) => get(cx, *value),
        Expr::Const(x, dtype) => Ok(Operand::Atom(literal(*x, *dtype))),
        Expr::Scalar(id) => {
            let param = cx.view.first_scalar + u32::from(id.0);
            Ok(Operand::Atom(cx.build.emit.scalar(param, cx.view.nest.scalar_dtype(*id))))
        }
        Expr::Iota(axis) => {
            let index = cx.env.axis_from(*axis, 0);
            Ok(Operand::Atom(cx.build.emit.index(&index)))
        }
        Expr::Edge(axis, edge) => Ok(Operand::Atom(edge_of_tile(cx, *axis, *edge))),
        Expr::Dim(extent) => Ok(Operand::Atom(cx.build.emit.dim(extent))),
        Expr::Un(op, a) => {
            let a = value(cx, a)?;
            Ok(apply(cx, Op::Un(*op), vec![a]))
        }
        Expr::Bin(op, a, b) => {
            if let Some((factors, other)) = multiplied(cx, *op, a, b) {
                return fused(cx, (*op, factors), (other, std::ptr::eq(other, &**a)));
            }
            if let (Expr::Iota(axis), Expr::Const(by, DType::I32)) = (&**a, &**b)
                && let Some(known) = divided(cx, *op, *axis, *by as i64)
            {
                return Ok(Operand::Atom(known));
            }
            let args = vec![value(cx, a)?, value(cx, b)?];
            let op = Op::of_values(*op, operand_ty(cx, &args[0]));
            Ok(apply(cx, op, args))
        }
        Expr::Cmp(..) if cx.env.within.iter().any(|axis| cx.view.plan.limits.is_mask(*axis, expr)) => {
            Ok(Operand::Atom(Atom::Bool(true)))
        }
        Expr::Cmp(op, a, b) => {
            if let Expr::Iota(axis) = **a
                && cx.view.plan.limits.is_mask(axis, expr)
            {
                return limited(cx, axis, *op, b);
            }
            let args = vec![value(cx, a)?, value(cx, b)?];
            Ok(apply(cx, Op::Cmp(*op), args))
        }
        Expr::Select(c, a, b) => {
            let condition = value(cx, c)?;
            if matches!(condition, Operand::Atom(Atom::Bool(true))) {
                return value(cx, a);
            }
            if let (Expr::Cast(..), Expr::Const(zero, _)) = (&**a, &**b)
                && zero.to_bits() == 0
            {
                return or_zero(cx, condition, a);
            }
            let (a, b) = (value(cx, a)?, value(cx, b)?);
            // Only where a maximum stays do both say the same.
            if cx.env.stays.is_some() && a.clone().expr() == b.clone().expr() {
                return Ok(a);
            }
            Ok(apply(cx, Op::Select, vec![condition, a, b]))
        }
        Expr::Cast(dtype, a) => {
            let a = value(cx, a)?;
            Ok(apply(cx, Op::Cast(*dtype), vec![a]))
        }
    }
}

/// Whether a point is on this side of a limit of its axis. What all points of a tile have in common goes to the limit's side, once for all
/// of them: each is compared with a number that the code has. No point is below 0, so neither side wraps around.
fn limited(cx: &mut Cx<'_>, axis: AxisId, op: CmpOp, limit: &Expr) -> Result<Operand, LowerError> {
    let limit = named(cx, limit)?;
    let point = cx.env.axis_from(axis, 0);
    let (Some(common), own) = cx.build.emit.index_base(&point) else {
        let point = cx.build.emit.index(&point);
        return Ok(Operand::Atom(cx.build.emit.cmp(op, point, limit)));
    };
    let limit = cx.build.emit.bin(BinOp::Max, limit, Atom::i32(0));
    let left = cx.build.emit.bin(BinOp::Sub, limit, common);
    Ok(Operand::Atom(cx.build.emit.cmp(op, Atom::i32(own), left)))
}

/// A number, or zero unless the condition holds. One that is converted to fewer bits is chosen before, as zero is one of any type: what
/// reads the number as it is has the same choice, and numbers are converted two at once.
pub(super) fn or_zero(cx: &mut Cx<'_>, condition: Operand, number: &Expr) -> Result<Operand, LowerError> {
    let zero = |cx: &Cx<'_>, of: &Expr| Operand::Atom(literal(0.0, cx.view.nest.dtype(of)));
    if let Expr::Cast(dtype, wide) = number
        && dtype.is_float()
        && cx.view.nest.dtype(wide).is_float()
        && dtype.bytes() < cx.view.nest.dtype(wide).bytes()
    {
        let arguments = vec![condition, value(cx, wide)?, zero(cx, wide)];
        let chosen = apply(cx, Op::Select, arguments);
        return Ok(apply(cx, Op::Cast(*dtype), vec![chosen]));
    }
    let arguments = vec![condition, value(cx, number)?, zero(cx, number)];
    Ok(apply(cx, Op::Select, arguments))
}

/// The quotient or the remainder of an axis by a number: steps of digits that are multiples of it are in the one, and those of digits that
/// stay below it are the other. So it is a number of the code where the latter are expanded. Tiles of two sizes begin at other points.
fn divided(cx: &mut Cx<'_>, op: BinOp, axis: AxisId, by: i64) -> Option<Atom> {
    let in_segments = cx.view.plan.tiles.segment.is_some_and(|segment| segment.digit.axis == axis);
    if !matches!(op, BinOp::Div | BinOp::Rem) || by < 1 || in_segments {
        return None;
    }
    let (mut multiples, mut rest, mut last) = (Linear::default(), Linear::default(), 0);
    for bound in cx.env.stack.iter().filter(|bound| bound.digit.axis == axis) {
        let stride = i64::from(bound.digit.stride);
        match bound.digit.steps {
            _ if stride % by == 0 => multiples.add_scaled(&bound.value, 1),
            Steps::Fixed(steps) => {
                rest.add_scaled(&bound.value, 1);
                last += stride * (i64::from(steps) - 1);
            }
            Steps::Rest => return None,
        }
    }
    if last >= by {
        return None;
    }
    if op == BinOp::Rem {
        return Some(cx.build.emit.index(&rest));
    }
    let whole = |n: &i64| n % by == 0;
    if whole(&multiples.constant) && multiples.terms.values().all(whole) {
        let terms = multiples.terms.iter().map(|(var, n)| (*var, n / by)).collect();
        return Some(cx.build.emit.index(&Linear { terms, constant: multiples.constant / by }));
    }
    let multiple = cx.build.emit.index(&multiples);
    Some(cx.build.emit.bin(BinOp::Div, multiple, Atom::i32(by)))
}

/// A product without the factors that are 1 where a maximum stays.
fn without_ones<'e>(cx: &Cx<'_>, expr: &'e Expr) -> &'e Expr {
    let is_one = |e: &Expr| matches!(e, Expr::Get(value) if cx.env.stays.is_some_and(|frozen| frozen.ones.contains(value)));
    match expr {
        Expr::Bin(BinOp::Mul, x, one) | Expr::Bin(BinOp::Mul, one, x) if is_one(one) => without_ones(cx, x),
        other => other,
    }
}

/// The factors of a product in `f32` that is an operand of a sum or a difference, and the other operand.
fn multiplied<'e>(cx: &Cx<'_>, op: BinOp, a: &'e Expr, b: &'e Expr) -> Option<([&'e Expr; 2], &'e Expr)> {
    let product = |of: &'e Expr| match without_ones(cx, of) {
        Expr::Bin(BinOp::Mul, x, y) if cx.view.nest.dtype(of) == DType::F32 => Some([&**x, &**y]),
        _ => None,
    };
    if !matches!(op, BinOp::Add | BinOp::Sub) {
        return None;
    }
    product(a).map(|factors| (factors, b)).or_else(|| product(b).map(|factors| (factors, a)))
}

/// `x * y + other`, `x * y - other` or `other - x * y`, rounded once.
fn fused(
    cx: &mut Cx<'_>,
    (op, [x, y]): (BinOp, [&Expr; 2]),
    (other, first): (&Expr, bool),
) -> Result<Operand, LowerError> {
    let (mut x, y, mut other) = (value(cx, x)?, value(cx, y)?, value(cx, other)?);
    if op == BinOp::Sub {
        let negated = if first { &mut x } else { &mut other };
        *negated = apply(cx, Op::Un(UnOp::Neg), vec![negated.clone()]);
    }
    Ok(apply(cx, Op::Fma, vec![x, y, other]))
}

/// An end of the tile of an axis that a recurrence has at hand: its loops over tiles say which.
fn edge_of_tile(cx: &mut Cx<'_>, axis: AxisId, edge: Edge) -> Atom {
    let tile = cx.view.nest.recurrences.get(&axis).and_then(|r| r.tile).unwrap_or(Recurrence::UNTILED);
    let mut first = Linear::default();
    for bound in cx.env.stack.iter().filter(|b| b.digit.axis == axis && b.digit.stride >= tile) {
        first.add_scaled(&bound.value, 1);
    }
    match edge {
        Edge::First => cx.build.emit.index(&first),
        Edge::End => {
            first.constant += i64::from(tile);
            let end = cx.build.emit.index(&first);
            let extent = cx.build.emit.dim(&cx.view.nest.kernel.axes[usize::from(axis.0)].extent);
            cx.build.emit.bin(BinOp::Min, end, extent)
        }
    }
}

/// A value that can be used several times.
pub(super) fn named(cx: &mut Cx<'_>, expr: &Expr) -> Result<Atom, LowerError> {
    match value(cx, expr)? {
        Operand::Atom(atom) => Ok(atom),
        Operand::Tree(tree, ty) => Ok(Atom::Var(cx.build.emit.name(tree, ty))),
    }
}

fn operand_ty(cx: &Cx<'_>, operand: &Operand) -> DType {
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
    let ty = op.result(|n| operand_ty(cx, &args[n]));
    if matches!(op, Op::Cast(_)) && operand_ty(cx, &args[0]) == ty {
        return args.into_iter().next().expect("one operand");
    }
    Operand::Tree(op.expr(args.into_iter().map(Operand::expr).collect()), ty)
}

fn get(cx: &mut Cx<'_>, value: ValueId) -> Result<Operand, LowerError> {
    // Where a maximum stays, it is what a step makes of it.
    let value = match cx.env.stays {
        Some(frozen) if frozen.next.contains(&value) => frozen.value,
        Some(frozen) if frozen.ones.contains(&value) => {
            return Ok(Operand::Atom(literal(1.0, cx.view.nest.value(value).dtype)));
        }
        _ => value,
    };
    let dtype = cx.view.nest.values[value.0 as usize].dtype;
    let Some((buffer, offset)) = storage::shared_place(cx, value)? else {
        let (frag, slot) = storage::slot(cx, value)?;
        return Ok(Operand::Tree(KExpr::Slot { frag, slot }, dtype));
    };
    let name = cx.view.nest.values[value.0 as usize].name.clone();
    let held = storage::held(cx, value)?;
    let pitches = held.shared.as_ref().map(|s| s.pitches.clone()).unwrap_or_default();
    let step = |axis| pitches.get(&axis).copied().unwrap_or(0);
    let lanes = loads::lanes(cx, held.height, |d| step(d.axis) * i64::from(d.stride), &name)?;
    let mut base = offset;
    if let Some(l) = lanes {
        base.constant -= i64::from(l.lane);
        loads::check_aligned(cx, &base, l.steps, dtype, &name)?;
    }
    let (atom, constant) = cx.build.emit.index_base(&base);
    Ok(Operand::Atom(loads::load_shared(cx, buffer, dtype, atom, constant, lanes)))
}

/// An element of the innermost fragment of its tensor, if there is one.
pub(super) fn fragment_slot(cx: &mut Cx<'_>, access: AccessId) -> Result<Option<Operand>, LowerError> {
    let dtype = cx.view.nest.elem(cx.view.nest.access(access).tensor);
    let slots = held::fragment_slots(cx, access, 1)?;
    Ok(slots.and_then(|all| all.into_iter().next()).map(|slot| Operand::Tree(slot, dtype)))
}
