//! Walks over statements and expressions, for passes that treat most of them alike.

use super::{Expr, ExprKind, Stmt};
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

    /// Calls `f` with this expression and each one inside, each before its operands.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(self);
        self.children().into_iter().for_each(|child| child.each(f));
    }

    /// As [`Expr::each`], to change them in place; operands of what `f` says false to are left out.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut Expr) -> bool) {
        if f(self) {
            self.children_mut().into_iter().for_each(|child| child.each_mut(f));
        }
    }

    /// Whether `f` holds for this expression or one inside.
    pub fn any(&self, f: &dyn Fn(&Expr) -> bool) -> bool {
        f(self) || self.children().into_iter().any(|child| child.any(f))
    }
}

impl Stmt {
    /// The value that it computes; none of a loop.
    pub fn value(&self) -> Option<&Expr> {
        match self {
            Stmt::Let { value, .. } | Stmt::Assign { value, .. } | Stmt::Store { value, .. } => Some(value),
            Stmt::For { .. } => None,
        }
    }

    /// The value that it computes, to change it in place.
    pub fn value_mut(&mut self) -> Option<&mut Expr> {
        match self {
            Stmt::Let { value, .. } | Stmt::Assign { value, .. } | Stmt::Store { value, .. } => Some(value),
            Stmt::For { .. } => None,
        }
    }

    /// The statements directly inside: those of a loop.
    pub fn body(&self) -> &[Stmt] {
        match self {
            Stmt::For { body, .. } => body,
            Stmt::Let { .. } | Stmt::Assign { .. } | Stmt::Store { .. } => &[],
        }
    }

    /// The statements directly inside, to change them in place.
    pub fn body_mut(&mut self) -> &mut [Stmt] {
        match self {
            Stmt::For { body, .. } => body,
            Stmt::Let { .. } | Stmt::Assign { .. } | Stmt::Store { .. } => &mut [],
        }
    }

    /// Calls `f` with this statement and each one inside, in the order written.
    pub fn each<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        self.body().iter().for_each(|inner| inner.each(f));
    }

    /// As [`Stmt::each`], to change them in place.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut Stmt)) {
        f(self);
        self.body_mut().iter_mut().for_each(|inner| inner.each_mut(f));
    }
}

/// Calls `f` with each statement, in the order written.
pub fn statements<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    body.iter().for_each(|stmt| stmt.each(f));
}

/// Calls `f` with each expression, each before its operands.
pub fn expressions<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a Expr)) {
    statements(body, &mut |stmt| stmt.value().into_iter().for_each(|value| value.each(f)));
}

/// As [`expressions`], to change them in place; operands of what `f` says false to are left out.
pub fn expressions_mut(body: &mut [Stmt], f: &mut dyn FnMut(&mut Expr) -> bool) {
    for stmt in body {
        stmt.each_mut(&mut |stmt| stmt.value_mut().into_iter().for_each(|value| value.each_mut(f)));
    }
}
