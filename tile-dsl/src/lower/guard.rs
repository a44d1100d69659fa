//! Guards: what may lie outside an extent, and where that has to be checked.
//!
//! Guards that follow from the extents alone, or from another guard, are not emitted.

use super::{
    context::Cx,
    digits,
    emit::{Atom, Op},
    linear::Linear,
};
use crate::{
    index::{Affine, AxisId, Extent},
    machine::{Unit, UnitDim},
    nest::{AccessId, Digit, Expr, LoopKind, ValueId, difference, non_negative, oversteps, range},
    op::{BinOp, CmpOp, RedOp, UnOp},
};
use std::cmp::Reverse;

/// Sides on which an index may leave its dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides {
    pub below: bool,
    pub above: bool,
}

impl Sides {
    pub fn or(self, other: Sides) -> Sides {
        Sides { below: self.below || other.below, above: self.above || other.above }
    }
}

/// An index, and the sides on which it may leave its extent.
#[derive(Clone, Debug)]
pub(super) struct Within {
    pub at: Linear,
    pub extent: Extent,
    pub sides: Sides,
}

/// Where an index may leave an extent, when these digits bind its axes.
pub(super) fn sides(cx: &Cx<'_>, extent: &Extent, index: &Affine, digits: &[Digit]) -> Sides {
    let (low, high) = range(cx.view.nest, index);
    let ragged = |positive: bool| {
        index.terms.iter().any(|(a, c)| (*c > 0) == positive && digits::ragged(cx, *a, digits))
    };
    let mut room = extent.clone();
    room.constant -= 1;
    Sides {
        below: !non_negative(&low) || ragged(false),
        above: !non_negative(&difference(&room, &high)) || ragged(true),
    }
}

/// The condition that each of some indices lies inside its extent, as far as its sides ask for it.
///
/// `variable + constant < extent` becomes `constant < limit` with `limit = extent − variable`, and a conjunction
/// becomes one more select: `i < I && j < J` is `j₀ < (i₀ < I − i ? J − j : least)`. Accesses of an expanded loop
/// or copy share the limits, which take a register each; a comparison with a constant is all that each has of its
/// own. So the dimension that tells such accesses apart, by its constant, comes last. Before it, what varies in the
/// innermost loop comes first, so that comparisons stay there: hoisted, each would hold a predicate register
/// throughout the loop.
pub(super) fn inside(cx: &mut Cx<'_>, indices: &[Within]) -> Option<Atom> {
    let mut guard = None;
    let mut above = Vec::new();
    for Within { at, extent, sides } in indices {
        if sides.below {
            let at = cx.build.emit.index(at);
            let cond = cx.build.emit.cmp(CmpOp::Ge, at, Atom::i32(0));
            guard = cx.build.emit.and(guard, Some(cond));
        }
        if sides.above {
            let extent = cx.build.emit.dim(extent);
            let (base, constant) = cx.build.emit.index_base(at);
            above.push((base.unwrap_or(Atom::i32(0)), extent, constant));
        }
    }
    let depth =
        |(base, extent, _): &(Atom, Atom, i64)| cx.build.emit.depth(*base).max(cx.build.emit.depth(*extent));
    if above.iter().any(|end| depth(end) != depth(&above[0])) {
        above.sort_by_key(|end| (end.2 != 0, Reverse(depth(end))));
    }
    for (base, extent, constant) in above {
        guard = Some(match guard {
            None if constant == 0 => cx.build.emit.cmp(CmpOp::Lt, base, extent),
            None => {
                let limit = cx.build.emit.bin(BinOp::Sub, extent, base);
                cx.build.emit.cmp(CmpOp::Lt, Atom::i32(constant), limit)
            }
            Some(guard) => {
                let limit = cx.build.emit.bin(BinOp::Sub, extent, base);
                let limit = cx.build.emit.op(Op::Select, &[guard, limit, Atom::i32(i32::MIN.into())]);
                cx.build.emit.cmp(CmpOp::Lt, Atom::i32(constant), limit)
            }
        });
    }
    guard.filter(|g| *g != Atom::Bool(true))
}

/// The condition that an access at `coords` lies inside its tensor.
pub(super) fn access_guard(cx: &mut Cx<'_>, access: AccessId, coords: &[Linear]) -> Option<Atom> {
    let within = access_within(cx, access, coords);
    inside(cx, &within)
}

/// Where an access at `coords` may leave its tensor.
pub(super) fn access_within(cx: &Cx<'_>, access: AccessId, coords: &[Linear]) -> Vec<Within> {
    let access = &cx.view.nest.accesses[access.0 as usize];
    let digits = digits::digits(cx);
    let dims = &cx.view.tensor(access.tensor).dims;
    // Where values are added, the coordinate is inside already: see `gather`.
    let forms = coords.iter().zip(dims).enumerate().filter(|(dim, _)| !access.by.contains_key(dim));
    let within = forms.map(|(dim, (at, extent))| {
        let sides = sides(cx, extent, &access.index[dim], &digits);
        Within { at: at.clone(), extent: extent.clone(), sides }
    });
    within.collect()
}

/// The condition that a contribution to `value` exists; `None` where it always does or adds zero anyway.
pub(super) fn red_guard(
    cx: &mut Cx<'_>,
    value: ValueId,
    height: usize,
    op: RedOp,
    expr: &Expr,
) -> Option<Atom> {
    let digits = digits::digits(cx);
    let own = &cx.view.nest.values[value.0 as usize].axes;
    let reduced = digits[height..].iter().map(|d| d.axis).filter(|a| !own.contains(a));
    let mut axes: Vec<AxisId> = reduced.collect();
    axes.sort();
    axes.dedup();
    axes.retain(|a| digits::ragged(cx, *a, &digits) && !(op == RedOp::Add && vanishes(cx, expr, *a)));
    let within: Vec<Within> = axes.into_iter().map(|a| end_of(cx, a)).collect();
    inside(cx, &within)
}

/// The condition that the current steps of the loops that carry a value have points; `None` where they always do.
pub(super) fn step_guard(cx: &mut Cx<'_>, value: ValueId, height: usize) -> Option<Atom> {
    let digits = digits::digits(cx);
    let own = &cx.view.nest.values[value.0 as usize].axes;
    let carrying = digits[height..].iter().map(|d| d.axis).filter(|a| !own.contains(a));
    let mut axes: Vec<AxisId> = carrying.collect();
    axes.sort();
    axes.dedup();
    axes.retain(|a| oversteps(cx.view.nest, *a, &digits));
    let within: Vec<Within> = axes.into_iter().map(|a| end_of(cx, a)).collect();
    inside(cx, &within)
}

/// The current point of an axis, which may pass the axis' extent.
pub(super) fn end_of(cx: &Cx<'_>, axis: AxisId) -> Within {
    let extent = cx.view.nest.kernel.axes[axis.0 as usize].extent.clone();
    Within { at: cx.env.axis_from(axis, 0), extent, sides: Sides { below: false, above: true } }
}

/// Whether an expression is zero beyond the extent of `axis`, because loads outside a tensor are.
/// Both factors of a product must be: zero times infinity is not zero.
pub(super) fn vanishes(cx: &Cx<'_>, expr: &Expr, axis: AxisId) -> bool {
    match expr {
        Expr::Load(access) => cx.view.nest.ends_with(*access, axis),
        Expr::Cast(dtype, e) => dtype.is_float() && vanishes(cx, e, axis),
        Expr::Un(UnOp::Neg | UnOp::Tf32, e) => vanishes(cx, e, axis),
        Expr::Bin(BinOp::Mul, a, b) => vanishes(cx, a, axis) && vanishes(cx, b, axis),
        _ => false,
    }
}

/// Where the enclosing loops leave a unit unbound, its coordinates do the same work: the first one stores.
/// Those of `distinct` do not.
pub(super) fn replica_guard(cx: &mut Cx<'_>, distinct: &[(Unit, UnitDim)]) -> Option<Atom> {
    let bound: Vec<LoopKind> = cx.env.stack.iter().map(|b| b.at).collect();
    let dims: Vec<_> = cx.env.tile.units.dims.keys().copied().collect();
    let mut guard = None;
    for (unit, dim) in dims {
        debug_assert_ne!(unit, Unit::Block);
        if bound.contains(&LoopKind::Unit(unit, dim)) || distinct.contains(&(unit, dim)) {
            continue;
        }
        let coordinate = cx.env.tile.units.coordinate(&mut cx.build.emit, unit, dim);
        let first = cx.build.emit.cmp(CmpOp::Eq, coordinate, Atom::i32(0));
        guard = cx.build.emit.and(guard, Some(first));
    }
    guard
}
