//! Guards: what may lie outside an extent, and where that has to be checked.
//!
//! Guards that follow from the extents alone, or from another guard, are not emitted.

use super::{Lowerer, emit::Atom, linear::Linear};
use crate::{
    index::{Affine, AxisId, Extent},
    nest::{AccessId, Digit, Expr, ValueId},
    op::{BinOp, CmpOp, RedOp, UnOp},
    tile::TensorId,
};

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

    /// The condition that an index lies inside a dimension, as far as `sides` asks for it.
    pub fn inside(&mut self, index: &Linear, extent: &Extent, sides: Sides) -> Option<Atom> {
        let mut guard = None;
        if sides.below {
            let at = self.emit.index(index);
            let cond = self.emit.cmp(CmpOp::Ge, at, Atom::i32(0));
            guard = self.emit.and(guard, Some(cond));
        }
        if sides.above {
            let at = self.emit.index(index);
            let end = self.emit.dim(extent);
            let cond = self.emit.cmp(CmpOp::Lt, at, end);
            guard = self.emit.and(guard, Some(cond));
        }
        guard.filter(|g| *g != Atom::Bool(true))
    }

    /// The condition that an access at `coords` lies inside its tensor.
    pub fn access_guard(&mut self, access: AccessId, coords: &[Linear]) -> Option<Atom> {
        let access = &self.nest.accesses[access.0 as usize];
        let digits = self.digits();
        let mut guard = None;
        for (dim, coord) in coords.iter().enumerate() {
            let sides = self.sides(access.tensor, dim, &access.index[dim], &digits);
            let extent = &self.tensor(access.tensor).dims[dim];
            let part = self.inside(coord, extent, sides);
            guard = self.emit.and(guard, part);
        }
        guard
    }

    /// The condition that a contribution to `value` exists; `None` where it always does or adds zero anyway.
    pub fn red_guard(&mut self, value: ValueId, height: usize, op: RedOp, expr: &Expr) -> Option<Atom> {
        let digits = self.digits();
        let own = &self.nest.values[value.0 as usize].axes;
        let reduced = digits[height..].iter().map(|d| d.axis).filter(|a| !own.contains(a));
        let mut axes: Vec<AxisId> = reduced.collect();
        axes.sort();
        axes.dedup();
        let mut guard = None;
        for axis in axes {
            if !self.ragged(axis, &digits) || (op == RedOp::Add && self.vanishes(expr, axis)) {
                continue;
            }
            let at = self.axis_from(axis, 0);
            let extent = &self.kernel.axes[axis.0 as usize].extent;
            let part = self.inside(&at, extent, Sides { below: false, above: true });
            guard = self.emit.and(guard, part);
        }
        guard
    }

    /// Whether an expression is zero beyond the extent of `axis`, because loads outside a tensor are.
    /// Both factors of a product must be: zero times infinity is not zero.
    fn vanishes(&self, expr: &Expr, axis: AxisId) -> bool {
        match expr {
            Expr::Load(access) => {
                let access = &self.nest.accesses[access.0 as usize];
                let extent = &self.kernel.axes[axis.0 as usize].extent;
                let dims = &self.tensor(access.tensor).dims;
                access.index.iter().zip(dims).any(|(i, d)| i.as_axis() == Some(axis) && d == extent)
            }
            Expr::Cast(dtype, e) => dtype.is_float() && self.vanishes(e, axis),
            Expr::Un(UnOp::Neg, e) => self.vanishes(e, axis),
            Expr::Bin(BinOp::Mul, a, b) => self.vanishes(a, axis) && self.vanishes(b, axis),
            _ => false,
        }
    }
}

/// Smallest and largest value of an index over the extents of its axes.
fn range(nest: &crate::nest::Nest, index: &Affine) -> (Extent, Extent) {
    let mut low = Extent::constant(index.constant);
    let mut high = low.clone();
    for (axis, c) in &index.terms {
        let mut last = nest.kernel.axes[axis.0 as usize].extent.clone();
        last.constant -= 1;
        let bound = if *c > 0 { &mut high } else { &mut low };
        add_scaled(bound, &last, *c);
    }
    (low, high)
}

fn add_scaled(sum: &mut Extent, other: &Extent, factor: i64) {
    sum.constant += factor * other.constant;
    for (name, c) in &other.dims {
        let at = sum.dims.entry(name.clone()).or_insert(0);
        *at += factor * c;
        if *at == 0 {
            sum.dims.remove(name);
        }
    }
}

fn difference(a: &Extent, b: &Extent) -> Extent {
    let mut out = a.clone();
    add_scaled(&mut out, b, -1);
    out
}

/// Whether an extent is at least zero for all dims.
fn non_negative(e: &Extent) -> bool {
    e.constant >= 0 && e.dims.values().all(|c| *c >= 0)
}
