//! Walks over nests: each leaf statement with what encloses it.

use super::{AccessId, CopyId, Digit, Expr, LoopKind, Nest, Stmt, ValueId};
use crate::index::AxisId;
use std::collections::{BTreeMap, BTreeSet};

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

impl Frame {
    /// The loop that it is, if it is one.
    pub fn step(&self) -> Option<Step> {
        if let Frame::For(digit, at) = self { Some((*digit, *at)) } else { None }
    }
}

impl Stmt {
    /// The statements directly inside, in program order.
    pub fn parts(&self) -> impl Iterator<Item = &Stmt> {
        let parts: [Option<&Stmt>; 2] = match self {
            Stmt::For { body, .. } | Stmt::Stage { body, .. } => [Some(body), None],
            Stmt::Let { first, rest, .. } => [Some(first), Some(rest)],
            Stmt::Def { .. }
            | Stmt::Red { .. }
            | Stmt::Scan { .. }
            | Stmt::Set { .. }
            | Stmt::Put { .. }
            | Stmt::Skip => [None; 2],
        };
        parts.into_iter().flatten()
    }

    /// The same with something else in the place of each statement directly inside.
    pub fn map(&self, f: &mut dyn FnMut(&Stmt) -> Stmt) -> Stmt {
        let mut part = |stmt: &Stmt| Box::new(f(stmt));
        match self {
            Stmt::For { digit, at, body } => Stmt::For { digit: *digit, at: *at, body: part(body) },
            Stmt::Let { values, first, rest } => {
                let (first, rest) = (part(first), part(rest));
                Stmt::Let { values: values.clone(), first, rest }
            }
            Stmt::Stage { copy, body } => Stmt::Stage { copy: *copy, body: part(body) },
            leaf @ (Stmt::Def { .. }
            | Stmt::Red { .. }
            | Stmt::Scan { .. }
            | Stmt::Set { .. }
            | Stmt::Put { .. }
            | Stmt::Skip) => leaf.clone(),
        }
    }

    /// Calls `visit` with this statement and each one inside, in program order, the outer one first.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        visit(self);
        self.parts().for_each(|part| part.each(visit));
    }

    /// The values of all `let`s inside.
    pub(crate) fn bound_values(&self) -> BTreeSet<ValueId> {
        let mut found = BTreeSet::new();
        self.each(&mut |stmt| {
            if let Stmt::Let { values, .. } = stmt {
                found.extend(values);
            }
        });
        found
    }

    /// Whether `f` holds for this statement or one inside.
    pub fn any(&self, f: &dyn Fn(&Stmt) -> bool) -> bool {
        f(self) || self.parts().any(|part| part.any(f))
    }
}

/// Calls `visit` with each statement and its path, in program order, the outer one first.
pub fn with_paths<'a>(stmt: &'a Stmt, visit: &mut dyn FnMut(&[Frame], &'a Stmt)) {
    fn go<'a>(stmt: &'a Stmt, path: &mut Vec<Frame>, visit: &mut dyn FnMut(&[Frame], &'a Stmt)) {
        visit(path, stmt);
        let mut part = |frame: Frame, part: &'a Stmt| {
            path.push(frame);
            go(part, path, visit);
            path.pop();
        };
        match stmt {
            Stmt::For { digit, at, body } => part(Frame::For(*digit, *at), body),
            Stmt::Let { values, first, rest } => {
                part(Frame::First(values.clone()), first);
                part(Frame::Rest(values.clone()), rest);
            }
            Stmt::Stage { copy, body } => part(Frame::Stage(*copy), body),
            Stmt::Def { .. }
            | Stmt::Red { .. }
            | Stmt::Scan { .. }
            | Stmt::Set { .. }
            | Stmt::Put { .. }
            | Stmt::Skip => {}
        }
    }
    go(stmt, &mut Vec::new(), visit);
}

/// Calls `visit` with every leaf statement (`def`, `red`, `scan`, `set`, `put`) and its path, in program order.
pub fn leaves<'a>(stmt: &'a Stmt, visit: &mut dyn FnMut(&[Frame], &'a Stmt)) {
    with_paths(stmt, &mut |path, stmt| {
        if stmt.leaf().is_some() {
            visit(path, stmt);
        }
    });
}

impl Stmt {
    /// The same statement of another expression, where it is a leaf.
    pub(crate) fn computing(&self, of: &dyn Fn(&Expr) -> Expr) -> Stmt {
        match self {
            Stmt::Def { value, expr } => Stmt::Def { value: *value, expr: of(expr) },
            Stmt::Red { value, op, expr } => Stmt::Red { value: *value, op: *op, expr: of(expr) },
            Stmt::Scan { value, expr } => Stmt::Scan { value: *value, expr: of(expr) },
            Stmt::Set { value, expr } => Stmt::Set { value: *value, expr: of(expr) },
            Stmt::Put { access, expr } => Stmt::Put { access: *access, expr: of(expr) },
            Stmt::For { .. } | Stmt::Let { .. } | Stmt::Stage { .. } | Stmt::Skip => self.clone(),
        }
    }

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
    let mut out = Vec::new();
    stmt.each(&mut |stmt| {
        if let Stmt::For { digit, at, .. } = stmt {
            out.push((*digit, *at));
        }
    });
    out
}

impl Stmt {
    /// The value or access that a leaf statement writes, and the expression it writes; `None` for the rest.
    pub fn leaf(&self) -> Option<(Target, &Expr)> {
        match self {
            Stmt::Def { value, expr }
            | Stmt::Red { value, expr, .. }
            | Stmt::Scan { value, expr }
            | Stmt::Set { value, expr } => Some((Target::Value(*value), expr)),
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
            Expr::Gather(_, by) => by.iter().for_each(|value| value.visit(visit)),
            Expr::Scatter { by, when, value } => {
                by.iter().for_each(|value| value.visit(visit));
                when.iter().for_each(|when| when.visit(visit));
                value.visit(visit);
            }
            Expr::Load(_)
            | Expr::Get(_)
            | Expr::Const(..)
            | Expr::Scalar(_)
            | Expr::Iota(_)
            | Expr::Edge(..)
            | Expr::Dim(_) => {}
        }
        visit(self);
    }

    /// The same with what `f` puts in the place of expressions, the outer ones first.
    pub fn replaced(&self, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
        if let Some(other) = f(self) {
            return other;
        }
        let mut of = |e: &Expr| Box::new(e.replaced(f));
        match self {
            Expr::Un(op, a) => Expr::Un(*op, of(a)),
            Expr::Bin(op, a, b) => Expr::Bin(*op, of(a), of(b)),
            Expr::Cmp(op, a, b) => Expr::Cmp(*op, of(a), of(b)),
            Expr::Select(c, a, b) => Expr::Select(of(c), of(a), of(b)),
            Expr::Cast(to, a) => Expr::Cast(*to, of(a)),
            Expr::Gather(access, by) => Expr::Gather(*access, by.iter().map(|e| *of(e)).collect()),
            Expr::Scatter { by, when, value } => Expr::Scatter {
                by: by.iter().map(|e| *of(e)).collect(),
                when: when.as_ref().map(|when| of(when)),
                value: of(value),
            },
            Expr::Load(_)
            | Expr::Get(_)
            | Expr::Const(..)
            | Expr::Scalar(_)
            | Expr::Iota(_)
            | Expr::Edge(..)
            | Expr::Dim(_) => self.clone(),
        }
    }

    /// The same with what values are defined as in their places.
    pub fn inlined(&self, defined: &BTreeMap<ValueId, &Expr>) -> Expr {
        self.replaced(&mut |e| match e {
            Expr::Get(value) => Some(defined.get(value)?.inlined(defined)),
            _ => None,
        })
    }

    /// Of what a `put` stores: the values that say where, the condition, and the element.
    pub fn stored(&self) -> (&[Expr], Option<&Expr>, &Expr) {
        match self {
            Expr::Scatter { by, when, value } => (by, when.as_deref(), value),
            value => (&[], None, value),
        }
    }

    /// The tensor accesses in it.
    pub fn accesses(&self) -> Vec<AccessId> {
        let mut out = Vec::new();
        self.visit(&mut |e| {
            if let Expr::Load(a) | Expr::Gather(a, _) = e {
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
    /// Values that one statement defines, each with what it is.
    pub fn definitions(&self) -> BTreeMap<ValueId, &Expr> {
        let mut found: BTreeMap<ValueId, Option<&Expr>> = BTreeMap::new();
        self.body.each(&mut |stmt| match stmt {
            Stmt::Def { value, expr } => {
                let same = |known: &mut Option<&_>| known.is_some_and(|known| known == expr);
                let of = found.entry(*value).or_insert(Some(expr));
                if !same(of) {
                    *of = None;
                }
            }
            Stmt::Set { value, .. } | Stmt::Red { value, .. } | Stmt::Scan { value, .. } => {
                found.insert(*value, None);
            }
            _ => {}
        });
        found.into_iter().filter_map(|(value, expr)| Some((value, expr?))).collect()
    }

    /// The values of each `let`, with the part of it that computes them, in program order.
    pub fn lets(&self) -> Vec<(ValueId, &Stmt)> {
        let mut out = Vec::new();
        self.body.each(&mut |stmt| {
            if let Stmt::Let { values, first, .. } = stmt {
                out.extend(values.iter().map(|value| (*value, &**first)));
            }
        });
        out
    }
}

/// A loop on the way to a statement, and how it runs.
pub(crate) type Step = (Digit, LoopKind);

/// The loops on a path, and how they run.
pub(crate) fn steps(nest: &Nest, path: &[Frame]) -> Vec<Step> {
    let step = |(n, frame): (usize, &Frame)| {
        let Frame::For(digit, at) = frame else { return None };
        let inside = if let Some(Frame::Stage(copy)) = path.get(n + 1) { Some(*copy) } else { None };
        Some((*digit, nest.runs(*at, inside)))
    };
    path.iter().enumerate().filter_map(step).collect()
}

/// The loops from `stmt` down to each statement that writes `value`.
pub(crate) fn writers(nest: &Nest, stmt: &Stmt, value: ValueId) -> Vec<Vec<Step>> {
    let mut out = Vec::new();
    leaves(stmt, &mut |path, leaf| {
        if leaf.leaf().is_some_and(|(target, _)| target == Target::Value(value)) {
            out.push(steps(nest, path));
        }
    });
    out
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
