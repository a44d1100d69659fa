//! Builds expressions for passes that write text: each takes its span from what it is made of.

use super::{ElemType, Expr, ExprKind, VarId};
use crate::{
    op::{BinOp, CmpOp, RedOp},
    span::SpanId,
};

pub(super) fn expr(kind: ExprKind, span: SpanId) -> Expr {
    Expr { kind, span }
}

pub(super) fn var(var: VarId, span: SpanId) -> Expr {
    expr(ExprKind::Var(var), span)
}

pub(super) fn constant(value: f64, elem: ElemType, span: SpanId) -> Expr {
    expr(ExprKind::Const { value, elem: Some(elem) }, span)
}

pub(super) fn cast(elem: ElemType, x: Expr) -> Expr {
    let span = x.span;
    expr(ExprKind::Cast(elem, Box::new(x)), span)
}

pub(super) fn bin(op: BinOp, a: Expr, b: Expr) -> Expr {
    let span = a.span;
    expr(ExprKind::Bin(op, Box::new(a), Box::new(b)), span)
}

pub(super) fn cmp(op: CmpOp, a: Expr, b: Expr) -> Expr {
    let span = b.span;
    expr(ExprKind::Cmp(op, Box::new(a), Box::new(b)), span)
}

pub(super) fn select(condition: Expr, a: Expr, b: Expr) -> Expr {
    let span = a.span;
    expr(ExprKind::Select(Box::new(condition), Box::new(a), Box::new(b)), span)
}

/// That all conditions hold; nothing for none.
pub(super) fn all(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|a, b| bin(BinOp::And, a, b))
}

/// The element of a type that a reduction ignores.
pub(super) fn neutral(op: RedOp, elem: ElemType, span: SpanId) -> Expr {
    let value = f64::from(op.neutral());
    let value = match elem {
        ElemType::Fixed(dtype) if dtype.is_integer() => {
            value.clamp(dtype.least() as f64, dtype.greatest() as f64)
        }
        _ => value,
    };
    constant(value, elem, span)
}
