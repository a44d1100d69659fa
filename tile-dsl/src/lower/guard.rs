//! Guards: what may lie outside an extent, and where that has to be checked.
//!
//! Guards that follow from the extents alone, or from another guard, are not emitted.

use super::{
    Lowerer,
    emit::{Atom, Op},
    linear::Linear,
};
use crate::{
    index::{Affine, AxisId, Extent},
    nest::{AccessId, Digit, Expr, ValueId, difference, non_negative, oversteps, range},
    op::{BinOp, CmpOp, RedOp, UnOp},
    tile::TensorId,
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

impl Lowerer<'_> {
    /// Where an index may leave dimension `dim` of a tensor, when these digits bind its axes.
    pub fn sides(&self, tensor: TensorId, dim: usize, index: &Affine, digits: &[Digit]) -> Sides {
        let extent = &self.tensor(tensor).dims[dim];
        let (low, high) = range(self.nest, index);
        let ragged =
            |positive: bool| index.terms.iter().any(|(a, c)| (*c > 0) == positive && self.ragged(*a, digits));
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
    pub fn inside(&mut self, indices: &[Within]) -> Option<Atom> {
        let mut guard = None;
        let mut above = Vec::new();
        for Within { at, extent, sides } in indices {
            if sides.below {
                let at = self.emit.index(at);
                let cond = self.emit.cmp(CmpOp::Ge, at, Atom::i32(0));
                guard = self.emit.and(guard, Some(cond));
            }
            if sides.above {
                let extent = self.emit.dim(extent);
                let (base, constant) = self.emit.index_base(at);
                above.push((base.unwrap_or(Atom::i32(0)), extent, constant));
            }
        }
        let depth =
            |(base, extent, _): &(Atom, Atom, i64)| self.emit.depth(*base).max(self.emit.depth(*extent));
        if above.iter().any(|end| depth(end) != depth(&above[0])) {
            above.sort_by_key(|end| (end.2 != 0, Reverse(depth(end))));
        }
        for (base, extent, constant) in above {
            guard = Some(match guard {
                None if constant == 0 => self.emit.cmp(CmpOp::Lt, base, extent),
                None => {
                    let limit = self.emit.bin(BinOp::Sub, extent, base);
                    self.emit.cmp(CmpOp::Lt, Atom::i32(constant), limit)
                }
                Some(guard) => {
                    let limit = self.emit.bin(BinOp::Sub, extent, base);
                    let limit = self.emit.op(Op::Select, &[guard, limit, Atom::i32(i32::MIN.into())]);
                    self.emit.cmp(CmpOp::Lt, Atom::i32(constant), limit)
                }
            });
        }
        guard.filter(|g| *g != Atom::Bool(true))
    }

    /// The condition that an access at `coords` lies inside its tensor.
    pub fn access_guard(&mut self, access: AccessId, coords: &[Linear]) -> Option<Atom> {
        let within = self.access_within(access, coords);
        self.inside(&within)
    }

    /// Where an access at `coords` may leave its tensor.
    pub fn access_within(&self, access: AccessId, coords: &[Linear]) -> Vec<Within> {
        let access = &self.nest.accesses[access.0 as usize];
        let digits = self.digits();
        let dims = &self.tensor(access.tensor).dims;
        let within = coords.iter().zip(dims).enumerate().map(|(dim, (at, extent))| {
            let sides = self.sides(access.tensor, dim, &access.index[dim], &digits);
            Within { at: at.clone(), extent: extent.clone(), sides }
        });
        within.collect()
    }

    /// The condition that a contribution to `value` exists; `None` where it always does or adds zero anyway.
    pub fn red_guard(&mut self, value: ValueId, height: usize, op: RedOp, expr: &Expr) -> Option<Atom> {
        let digits = self.digits();
        let own = &self.nest.values[value.0 as usize].axes;
        let reduced = digits[height..].iter().map(|d| d.axis).filter(|a| !own.contains(a));
        let mut axes: Vec<AxisId> = reduced.collect();
        axes.sort();
        axes.dedup();
        axes.retain(|a| self.ragged(*a, &digits) && !(op == RedOp::Add && self.vanishes(expr, *a)));
        let within: Vec<Within> = axes.into_iter().map(|a| self.end_of(a)).collect();
        self.inside(&within)
    }

    /// The condition that the current steps of the loops that carry a value have points; `None` where they always do.
    pub fn step_guard(&mut self, value: ValueId, height: usize) -> Option<Atom> {
        let digits = self.digits();
        let own = &self.nest.values[value.0 as usize].axes;
        let carrying = digits[height..].iter().map(|d| d.axis).filter(|a| !own.contains(a));
        let mut axes: Vec<AxisId> = carrying.collect();
        axes.sort();
        axes.dedup();
        axes.retain(|a| oversteps(self.nest, *a, &digits));
        let within: Vec<Within> = axes.into_iter().map(|a| self.end_of(a)).collect();
        self.inside(&within)
    }

    /// The current point of an axis, which may pass the axis' extent.
    pub fn end_of(&self, axis: AxisId) -> Within {
        let extent = self.kernel.axes[axis.0 as usize].extent.clone();
        Within { at: self.axis_from(axis, 0), extent, sides: Sides { below: false, above: true } }
    }

    /// Whether an expression is zero beyond the extent of `axis`, because loads outside a tensor are.
    /// Both factors of a product must be: zero times infinity is not zero.
    pub fn vanishes(&self, expr: &Expr, axis: AxisId) -> bool {
        match expr {
            Expr::Load(access) => self.nest.ends_with(*access, axis),
            Expr::Cast(dtype, e) => dtype.is_float() && self.vanishes(e, axis),
            Expr::Un(UnOp::Neg | UnOp::Tf32, e) => self.vanishes(e, axis),
            Expr::Bin(BinOp::Mul, a, b) => self.vanishes(a, axis) && self.vanishes(b, axis),
            _ => false,
        }
    }
}
