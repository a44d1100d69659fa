//! Walks over nests: each leaf statement with what encloses it.

use super::{AccessId, CopyId, Digit, Expr, LoopKind, Nest, Stmt, ValueId};
use crate::index::AxisId;

/// What encloses a statement, outermost first in a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A loop.
    For(Digit, LoopKind),
    /// The first part of a `let` of these values: the part that computes them.
    First(Vec<ValueId>),
    /// The second part of a `let` of these values: the part that reads them.
    Rest(Vec<ValueId>),
    /// A staged copy.
    Stage(CopyId),
}

/// Calls `visit` with every leaf statement (`def`, `red`, `set`, `put`) and its path, in program order.
pub fn leaves<'a>(stmt: &'a Stmt, visit: &mut dyn FnMut(&[Frame], &'a Stmt)) {
    fn go<'a>(stmt: &'a Stmt, path: &mut Vec<Frame>, visit: &mut dyn FnMut(&[Frame], &'a Stmt)) {
        match stmt {
            Stmt::For { digit, at, body } => {
                path.push(Frame::For(*digit, *at));
                go(body, path, visit);
                path.pop();
            }
            Stmt::Let { values, first, rest } => {
                path.push(Frame::First(values.clone()));
                go(first, path, visit);
                path.pop();
                path.push(Frame::Rest(values.clone()));
                go(rest, path, visit);
                path.pop();
            }
            Stmt::Stage { copy, body } => {
                path.push(Frame::Stage(*copy));
                go(body, path, visit);
                path.pop();
            }
            Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } => visit(path, stmt),
            Stmt::Skip => {}
        }
    }
    go(stmt, &mut Vec::new(), visit);
}

impl Stmt {
    /// The statement inside some frames of a path that [`leaves`] gives; `None` if they do not lead anywhere.
    pub fn inside(&self, path: &[Frame]) -> Option<&Stmt> {
        path.iter().try_fold(self, |stmt, frame| match (stmt, frame) {
            (Stmt::For { body, .. }, Frame::For(..)) | (Stmt::Stage { body, .. }, Frame::Stage(_)) => {
                Some(&**body)
            }
            (Stmt::Let { first, .. }, Frame::First(_)) => Some(&**first),
            (Stmt::Let { rest, .. }, Frame::Rest(_)) => Some(&**rest),
            _ => None,
        })
    }
}

/// Every loop of a statement, in program order, with repetitions.
pub fn loops(stmt: &Stmt) -> Vec<(Digit, LoopKind)> {
    fn go(stmt: &Stmt, out: &mut Vec<(Digit, LoopKind)>) {
        match stmt {
            Stmt::For { digit, at, body } => {
                out.push((*digit, *at));
                go(body, out);
            }
            Stmt::Let { first, rest, .. } => {
                go(first, out);
                go(rest, out);
            }
            Stmt::Stage { body, .. } => go(body, out),
            _ => {}
        }
    }
    let mut out = Vec::new();
    go(stmt, &mut out);
    out
}

impl Stmt {
    /// The value or access that a leaf statement writes, and the expression it writes; `None` for the rest.
    pub fn leaf(&self) -> Option<(Target, &Expr)> {
        match self {
            Stmt::Def { value, expr } | Stmt::Red { value, expr, .. } | Stmt::Set { value, expr } => {
                Some((Target::Value(*value), expr))
            }
            Stmt::Put { access, expr } => Some((Target::Access(*access), expr)),
            Stmt::For { .. } | Stmt::Let { .. } | Stmt::Stage { .. } | Stmt::Skip => None,
        }
    }
}

/// What a leaf statement writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A named intermediate.
    Value(ValueId),
    /// An element of a tensor.
    Access(AccessId),
}

impl Expr {
    /// Calls `visit` with every node, operands first.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            Expr::Un(_, a) | Expr::Cast(_, a) => a.visit(visit),
            Expr::Bin(_, a, b) | Expr::Cmp(_, a, b) => {
                a.visit(visit);
                b.visit(visit);
            }
            Expr::Select(a, b, c) => {
                a.visit(visit);
                b.visit(visit);
                c.visit(visit);
            }
            Expr::Load(_)
            | Expr::Get(_)
            | Expr::Const(..)
            | Expr::Scalar(_)
            | Expr::Iota(_)
            | Expr::Dim(_) => {}
        }
        visit(self);
    }

    /// The tensor accesses in it.
    pub fn accesses(&self) -> Vec<AccessId> {
        let mut out = Vec::new();
        self.visit(&mut |e| {
            if let Expr::Load(a) = e {
                out.push(*a);
            }
        });
        out
    }

    /// The values in it.
    pub fn values(&self) -> Vec<ValueId> {
        let mut out = Vec::new();
        self.visit(&mut |e| {
            if let Expr::Get(v) = e {
                out.push(*v);
            }
        });
        out
    }

    /// The axes whose index value it uses.
    pub fn iotas(&self) -> Vec<AxisId> {
        let mut out = Vec::new();
        self.visit(&mut |e| {
            if let Expr::Iota(a) = e {
                out.push(*a);
            }
        });
        out
    }
}

impl Nest {
    /// The values of each `let`, with the part of it that computes them, in program order.
    pub fn lets(&self) -> Vec<(ValueId, &Stmt)> {
        fn go<'n>(stmt: &'n Stmt, out: &mut Vec<(ValueId, &'n Stmt)>) {
            match stmt {
                Stmt::For { body, .. } | Stmt::Stage { body, .. } => go(body, out),
                Stmt::Let { values, first, rest } => {
                    out.extend(values.iter().map(|value| (*value, &**first)));
                    go(first, out);
                    go(rest, out);
                }
                Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } | Stmt::Skip => {}
            }
        }
        let mut out = Vec::new();
        go(&self.body, &mut out);
        out
    }
}

/// A loop on the way to a statement, and how it runs.
pub(crate) type Step = (Digit, LoopKind);

/// The loops from `stmt` down to each statement that writes `value`.
pub(crate) fn writers(nest: &Nest, stmt: &Stmt, value: ValueId) -> Vec<Vec<Step>> {
    let mut out = Vec::new();
    let writes = |s: &Stmt| matches!(s, Stmt::Def { value: v, .. } | Stmt::Red { value: v, .. } | Stmt::Set { value: v, .. } if *v == value);
    paths(nest, stmt, &writes, &mut Vec::new(), &mut out);
    out
}

/// The loops from `stmt` down to each statement that `wanted` accepts.
fn paths(
    nest: &Nest,
    stmt: &Stmt,
    wanted: &dyn Fn(&Stmt) -> bool,
    path: &mut Vec<Step>,
    out: &mut Vec<Vec<Step>>,
) {
    match stmt {
        Stmt::For { digit, at, body } => {
            let inside = if let Stmt::Stage { copy, .. } = &**body { Some(*copy) } else { None };
            path.push((*digit, nest.runs(*at, inside)));
            paths(nest, body, wanted, path, out);
            path.pop();
        }
        Stmt::Let { first, rest, .. } => {
            paths(nest, first, wanted, path, out);
            paths(nest, rest, wanted, path, out);
        }
        Stmt::Stage { body, .. } => paths(nest, body, wanted, path, out),
        Stmt::Skip => {}
        Stmt::Def { .. } | Stmt::Red { .. } | Stmt::Set { .. } | Stmt::Put { .. } => {
            if wanted(stmt) {
                out.push(path.clone());
            }
        }
    }
}

/// Directly nested stages, and what they stand around.
pub(crate) fn chain(stmt: &Stmt) -> (Vec<CopyId>, &Stmt) {
    let (mut copies, mut body) = (Vec::new(), stmt);
    while let Stmt::Stage { copy, body: inner } = body {
        copies.push(*copy);
        body = inner;
    }
    (copies, body)
}
