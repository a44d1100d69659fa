//! Interleaves memory accesses with a computation that does not depend on them.
//!
//! Spread among independent arithmetic they cost one issue slot each. Over which part of it, [`Interleave`](crate::nest::Interleave)
//! says.

use crate::{
    kernel::{Expr, Stmt, Var},
    nest::Fraction,
};

/// Statements that stay together, each of the lists, in order.
pub(super) type Units = Vec<Vec<Stmt>>;

/// What is spread over a computation.
#[derive(Default)]
pub(super) struct Among {
    /// Spread over the first part, so that the results are there when the computation ends.
    pub early: Units,
    /// Spread over all of it.
    pub even: Units,
}

/// The computation with the units spread over it, those that are to come early over a part of it. Where it is more than a straight line, they come first.
pub(super) fn interleave(main: Vec<Stmt>, part: Fraction, units: Among) -> Vec<Stmt> {
    let Among { early, mut even } = units;
    let plain = |s: &Stmt| {
        matches!(
            s,
            Stmt::Let(..)
                | Stmt::Set { .. }
                | Stmt::Load { .. }
                | Stmt::LoadMatrices { .. }
                | Stmt::Mma { .. }
        )
    };
    let straight = main.iter().all(plain);
    if !straight {
        return even.into_iter().chain(early).flatten().chain(main).collect();
    }
    let mut out = Vec::new();
    if needs_names(&main, &even) || early.iter().any(|unit| needs_names(unit, &even)) {
        for unit in &mut even {
            let (names, rest) = std::mem::take(unit).into_iter().partition(|s| matches!(s, Stmt::Let(..)));
            *unit = rest;
            out.extend::<Vec<Stmt>>(names);
        }
    }
    let gap = (part.parts as usize * main.len() / (part.of as usize * early.len().max(1))).max(1);
    let mut units: Vec<(usize, Vec<Stmt>)> =
        early.into_iter().enumerate().map(|(n, unit)| (1 + n * gap, unit)).collect();
    let (length, count) = (main.len(), even.len());
    units.extend(even.into_iter().enumerate().map(|(n, unit)| ((2 * n + 1) * length / (2 * count), unit)));
    units.sort_by_key(|(at, _)| *at);
    let mut units = units.into_iter().peekable();
    for (at, stmt) in main.into_iter().enumerate() {
        while units.peek().is_some_and(|(position, _)| *position <= at) {
            out.extend(units.next().into_iter().flat_map(|(_, unit)| unit));
        }
        out.push(stmt);
    }
    out.extend(units.flat_map(|(_, unit)| unit));
    out
}

/// Whether statements use a variable that a `let` of some units defines.
fn needs_names(stmts: &[Stmt], units: &[Vec<Stmt>]) -> bool {
    let defined: Vec<Var> = units
        .iter()
        .flatten()
        .filter_map(|s| if let Stmt::Let(var, _) = s { Some(*var) } else { None })
        .collect();
    let uses = |e: &Expr| e.mentions(&defined);
    !defined.is_empty()
        && stmts.iter().any(|s| match s {
            Stmt::Let(_, value) | Stmt::Set { value, .. } => uses(value),
            Stmt::LoadMatrices { offset, .. } => uses(offset),
            Stmt::Mma { a, b, .. } => a.iter().chain(b).any(uses),
            Stmt::Load { offset, guard, .. } => uses(offset) || guard.as_ref().is_some_and(uses),
            _ => true,
        })
}
