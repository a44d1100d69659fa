//! Walks over statements and expressions, for passes that treat most of them alike.

use super::{Expr, ExprKind, Index, Stmt};
use crate::op::UnOp;

impl Expr {
    /// As a factor of `dot(.., tf32)`.
    pub fn tf32(self) -> Expr {
        Expr { span: self.span, kind: ExprKind::Un(UnOp::Tf32, Box::new(self)) }
    }

    /// Operands in the order written.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Load { index, .. } => super::index::values(index).collect(),
            ExprKind::Full { .. }
            | ExprKind::Iota(_)
            | ExprKind::Edge(..)
            | ExprKind::Dim(_)
            | ExprKind::Const { .. }
            | ExprKind::Scalar(_)
            | ExprKind::Var(_) => vec![],
            ExprKind::Un(_, x)
            | ExprKind::Cast(_, x)
            | ExprKind::Reduce(_, x, _)
            | ExprKind::Scan(_, x, _) => vec![x],
            ExprKind::Bin(_, a, b) | ExprKind::Cmp(_, a, b) => vec![a, b],
            ExprKind::Select(a, b, c) | ExprKind::Dot(a, b, c) => vec![a, b, c],
        }
    }

    /// Operands in the order written, to change them in place.
    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            ExprKind::Load { index, .. } => values_mut(index).collect(),
            ExprKind::Full { .. }
            | ExprKind::Iota(_)
            | ExprKind::Edge(..)
            | ExprKind::Dim(_)
            | ExprKind::Const { .. }
            | ExprKind::Scalar(_)
            | ExprKind::Var(_) => vec![],
            ExprKind::Un(_, x)
            | ExprKind::Cast(_, x)
            | ExprKind::Reduce(_, x, _)
            | ExprKind::Scan(_, x, _) => vec![x],
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
    /// What it computes, in the order written; nothing of a loop.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Stmt::Let { value, .. } | Stmt::Assign { value, .. } => vec![value],
            Stmt::Store { index, when, value, .. } => {
                when.iter().chain(super::index::values(index)).chain([value]).collect()
            }
            Stmt::For { .. } => vec![],
        }
    }

    /// What it computes, to change it in place.
    pub fn operands_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Stmt::Let { value, .. } | Stmt::Assign { value, .. } => vec![value],
            Stmt::Store { index, when, value, .. } => {
                when.iter_mut().chain(values_mut(index)).chain([value]).collect()
            }
            Stmt::For { .. } => vec![],
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

fn values_mut(index: &mut [Index]) -> impl Iterator<Item = &mut Expr> {
    index.iter_mut().filter_map(|i| i.value.as_deref_mut())
}

/// Calls `f` with each statement, in the order written.
pub fn statements<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    body.iter().for_each(|stmt| stmt.each(f));
}

/// Calls `f` with each expression, each before its operands.
pub fn expressions<'a>(body: &'a [Stmt], f: &mut dyn FnMut(&'a Expr)) {
    statements(body, &mut |stmt| stmt.operands().into_iter().for_each(|value| value.each(f)));
}

/// As [`expressions`], to change them in place; operands of what `f` says false to are left out.
pub fn expressions_mut(body: &mut [Stmt], f: &mut dyn FnMut(&mut Expr) -> bool) {
    for stmt in body {
        stmt.each_mut(&mut |stmt| stmt.operands_mut().into_iter().for_each(|value| value.each_mut(f)));
    }
}
