//! Operands of an expression, for passes that treat most operations alike.

use super::{Expr, ExprKind};
use crate::op::UnOp;

impl Expr {
    /// As a factor of `dot(.., tf32)`.
    pub fn tf32(self) -> Expr {
        Expr { span: self.span, kind: ExprKind::Un(UnOp::Tf32, Box::new(self)) }
    }

    /// Operands in the order written.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Load { .. }
            | ExprKind::Full { .. }
            | ExprKind::Iota(_)
            | ExprKind::Dim(_)
            | ExprKind::Const { .. }
            | ExprKind::Scalar(_)
            | ExprKind::Var(_) => vec![],
            ExprKind::Un(_, x) | ExprKind::Cast(_, x) | ExprKind::Reduce(_, x, _) => vec![x],
            ExprKind::Bin(_, a, b) | ExprKind::Cmp(_, a, b) => vec![a, b],
            ExprKind::Select(a, b, c) | ExprKind::Dot(a, b, c) => vec![a, b, c],
        }
    }

    /// Operands in the order written, to change them in place.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            ExprKind::Load { .. }
            | ExprKind::Full { .. }
            | ExprKind::Iota(_)
            | ExprKind::Dim(_)
            | ExprKind::Const { .. }
            | ExprKind::Scalar(_)
            | ExprKind::Var(_) => vec![],
            ExprKind::Un(_, x) | ExprKind::Cast(_, x) | ExprKind::Reduce(_, x, _) => vec![x],
            ExprKind::Bin(_, a, b) | ExprKind::Cmp(_, a, b) => vec![a, b],
            ExprKind::Select(a, b, c) | ExprKind::Dot(a, b, c) => vec![a, b, c],
        }
    }
}
