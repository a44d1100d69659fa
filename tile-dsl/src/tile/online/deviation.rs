//! Sums of squared deviations: of `(g - u) * (g - u)`, where `u` has no element of its own, such as a mean.
//!
//! ```text
//! let mean = sum(v, n) / count; let q = sum((v - mean) * (v - mean), n);
//! ```
//! The loop keeps the number of points, their mean `c` and the squares from it, and combines them with those of a tile (Chan, Golub and
//! LeVeque 1979). Behind the loop the squares from `u` are those from `c`, and the number times `(c - u) * (c - u)`: for any `u`.

use super::weight::Weigher;
use crate::{
    dtype::DType,
    op::{BinOp, RedOp},
    tile::{Expr, ExprKind},
};

/// What deviates, as a sum over the axis, and from what.
pub(super) struct Deviation {
    pub sum: Expr,
    pub from: Expr,
}

impl Weigher<'_> {
    /// The deviation whose squares a reduction sums, if it does.
    pub fn deviates(&self, value: &Expr) -> Option<Deviation> {
        let known = self.known;
        let ExprKind::Reduce(RedOp::Add, x, axis) = &value.kind else { return None };
        let (mask, square) = match &x.kind {
            ExprKind::Select(c, x, none) if self.is_mask(c) => (Some((c, none)), x),
            _ => (None, x),
        };
        let ExprKind::Bin(BinOp::Mul, a, b) = &known.resolved(square).kind else { return None };
        let ExprKind::Bin(BinOp::Sub, g, u) = &known.resolved(a).kind else { return None };
        let (g, u) = if known.along(g) { (g, u) } else { (u, g) };
        let fits = known.same(a, b) && known.dtype(value) == DType::F32;
        if !fits || !known.along(g) || !self.folded(g).is_empty() || known.along(u) {
            return None;
        }
        let x = match mask {
            Some((c, none)) => {
                Box::new(Expr { kind: ExprKind::Select(c.clone(), g.clone(), none.clone()), span: x.span })
            }
            None => g.clone(),
        };
        let sum = Expr { kind: ExprKind::Reduce(RedOp::Add, x, *axis), span: value.span };
        Some(Deviation { sum, from: (**u).clone() })
    }
}
