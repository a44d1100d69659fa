//! Expressions of the kernel as expressions of the nest.

use super::{Axes, Binding, Build, Item, dtype};
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    index::Extent,
    nest::Expr,
    op::{BinOp, CmpOp, RedOp},
    tile::{self, ExprKind},
};

impl Build<'_> {
    /// `a · b` widened to the accumulator's type, and the axes it contracts.
    pub(super) fn product(
        &mut self,
        a: &tile::Expr,
        b: &tile::Expr,
        acc: &Binding,
        name: &str,
        items: &mut Vec<Item>,
    ) -> Result<(Binding, Axes), Diagnostic> {
        let a = cast(self.expr(a, None, name, items)?, acc.dtype);
        let b = cast(self.expr(b, None, name, items)?, acc.dtype);
        let product = combine(BinOp::Mul, a, b);
        let over = &product.axes - &acc.axes;
        Ok((product, over))
    }

    /// Type of an expression, `None` for a bare literal.
    fn dtype_of(&self, e: &tile::Expr) -> Option<DType> {
        match &e.kind {
            ExprKind::Load { tensor, .. } => Some(dtype(self.kernel.tensors[usize::from(tensor.0)].elem)),
            ExprKind::Full { elem, .. } | ExprKind::Cast(elem, _) => Some(dtype(*elem)),
            ExprKind::Const { elem, .. } => elem.map(dtype),
            ExprKind::Iota(_) | ExprKind::Edge(..) | ExprKind::Dim(_) => Some(DType::I32),
            ExprKind::Scalar(s) => Some(dtype(self.kernel.scalars[usize::from(s.0)].elem)),
            ExprKind::Var(v) => self.env.get(v).map(|b| b.dtype),
            ExprKind::Un(op, a) => self.dtype_of(a).map(|dtype| op.result(dtype)),
            ExprKind::Reduce(_, a, _) | ExprKind::Scan(_, a, _) => self.dtype_of(a),
            ExprKind::Bin(op, a, b) => {
                self.dtype_of(a).or_else(|| self.dtype_of(b)).map(|dtype| op.result(dtype))
            }
            ExprKind::Cmp(..) => Some(DType::Bool),
            ExprKind::Select(_, a, b) => self.dtype_of(a).or_else(|| self.dtype_of(b)),
            ExprKind::Dot(_, _, c) => self.dtype_of(c),
        }
    }

    /// Translates an expression; reductions in it become items, named after `stmt`.
    pub(super) fn expr(
        &mut self,
        e: &tile::Expr,
        want: Option<DType>,
        stmt: &str,
        items: &mut Vec<Item>,
    ) -> Result<Binding, Diagnostic> {
        let own = self.dtype_of(e).or(want).unwrap_or(DType::F32);
        let point = |expr: Expr, axes: Axes| Binding { expr, axes, dtype: own };
        Ok(match &e.kind {
            ExprKind::Load { tensor, index } => {
                let (access, by) = self.place(*tensor, index, (None, None), e.span, stmt, items)?;
                let axes = self.accesses[usize::from(access.0)].axes();
                match by.is_empty() {
                    true => point(Expr::Load(access), axes),
                    false => point(Expr::Gather(access, by), axes),
                }
            }
            ExprKind::Full { value, axes, .. } => {
                point(Expr::Const(*value, own), axes.iter().copied().collect())
            }
            ExprKind::Const { value, .. } => point(Expr::Const(*value, own), Axes::new()),
            ExprKind::Iota(a) => point(Expr::Iota(*a), [*a].into()),
            ExprKind::Edge(a, edge) => point(Expr::Edge(*a, *edge), Axes::new()),
            ExprKind::Dim(d) => point(Expr::Dim(Extent::dim(d)), Axes::new()),
            ExprKind::Scalar(s) => point(Expr::Scalar(*s), Axes::new()),
            ExprKind::Var(v) => self.env.get(v).cloned().ok_or_else(|| {
                let name = &self.kernel.vars[usize::from(v.0)].name;
                Diagnostic::new(e.span, format!("`{name}` has no value here"))
            })?,
            ExprKind::Un(op, a) => {
                let a = self.expr(a, Some(own).filter(|_| op.row().makes.is_none()), stmt, items)?;
                point(Expr::Un(*op, Box::new(a.expr)), a.axes)
            }
            ExprKind::Bin(op, a, b) => {
                let a = self.expr(a, Some(own), stmt, items)?;
                let b = self.expr(b, Some(own), stmt, items)?;
                match op.takes_bits() {
                    // The bits alone count: a number of places that is negative is too large, and the other way round.
                    true => combine(*op, cast(a, own), cast(b, own)),
                    false => combine(*op, a, b),
                }
            }
            ExprKind::Cmp(op, a, b) => {
                let side = self.dtype_of(a).or_else(|| self.dtype_of(b));
                let a = self.expr(a, side, stmt, items)?;
                let b = self.expr(b, side, stmt, items)?;
                point(Expr::Cmp(*op, Box::new(a.expr), Box::new(b.expr)), &a.axes | &b.axes)
            }
            ExprKind::Select(c, a, b) => {
                let c = self.expr(c, Some(DType::Bool), stmt, items)?;
                let a = self.expr(a, Some(own), stmt, items)?;
                let b = self.expr(b, Some(own), stmt, items)?;
                let axes = &(&c.axes | &a.axes) | &b.axes;
                point(Expr::Select(Box::new(c.expr), Box::new(a.expr), Box::new(b.expr)), axes)
            }
            ExprKind::Cast(_, a) => cast(self.expr(a, None, stmt, items)?, own),
            ExprKind::Reduce(op, a, axis) => {
                self.by_tile(&[*axis].into(), e.span);
                let a = self.expr(a, Some(own), stmt, items)?;
                let name = format!("{stmt}.{}", op.name());
                self.reduce(name, *op, a, *axis, e.span, items)
            }
            ExprKind::Scan(op, a, axis) => {
                self.by_tile(&[*axis].into(), e.span);
                let a = self.expr(a, Some(own), stmt, items)?;
                let name = format!("{stmt}.{}", op.scan());
                self.scan(name, *op, a, *axis, e.span, items)
            }
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, want, stmt, items)?;
                let (product, over) = self.product(a, b, &acc, stmt, items)?;
                self.by_tile(&over, e.span);
                let init = literal(&acc.expr);
                let product = Binding { axes: &acc.axes | &product.axes, ..product };
                let name = format!("{stmt}.dot");
                let dot = self.reduction(name, RedOp::Add, product, &over, init, e.span, items);
                if init.is_some() { dot } else { combine(BinOp::Add, acc, dot) }
            }
        })
    }
}

pub(super) fn combine(op: BinOp, a: Binding, b: Binding) -> Binding {
    Binding {
        axes: &a.axes | &b.axes,
        dtype: a.dtype,
        expr: Expr::Bin(op, Box::new(a.expr), Box::new(b.expr)),
    }
}

pub(super) fn cast(value: Binding, to: DType) -> Binding {
    if value.dtype == to {
        return value;
    }
    let expr = match value.expr {
        Expr::Const(c, from) if to.is_float() => Expr::Const(f64::from(to.round(from.round(c as f32))), to),
        expr => Expr::Cast(to, Box::new(expr)),
    };
    Binding { expr, axes: value.axes, dtype: to }
}

/// An integer as an `i32` that leads to the same place: what is none leads beyond every tensor, as [`tile::index::number`] does.
pub(super) fn to_place(value: Binding) -> Binding {
    let (of, to) = (value.dtype, DType::I32);
    let bound =
        |op: CmpOp, n: i64| Expr::Cmp(op, Box::new(value.expr.clone()), Box::new(Expr::Const(n as f64, of)));
    let above = (of.greatest() > to.greatest()).then(|| bound(CmpOp::Le, to.greatest()));
    let below = (of.least() < to.least()).then(|| bound(CmpOp::Ge, to.least()));
    let fits = match (above, below) {
        (Some(a), Some(b)) => Some(Expr::Bin(BinOp::And, Box::new(a), Box::new(b))),
        (a, b) => a.or(b),
    };
    let narrow = cast(value, to);
    let Some(fits) = fits else { return narrow };
    let none = Expr::Const(to.least() as f64, to);
    Binding { expr: Expr::Select(Box::new(fits), Box::new(narrow.expr), Box::new(none)), ..narrow }
}

pub(super) fn literal(expr: &Expr) -> Option<f64> {
    if let Expr::Const(c, _) = expr { Some(*c) } else { None }
}
