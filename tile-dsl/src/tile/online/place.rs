//! Where statements go: before the loop, in it, behind it.
//!
//! A value along the axis is computed where it is read: before the loop for what stands there, in each step for what the loop
//! reduces, and once more behind it. So it may move past other statements, and must not see what they change.

use super::{Fold, axes::mentions, known::Known, refused};
use crate::{
    diagnostic::Diagnostic,
    index::AxisId,
    tile::{Expr, ExprKind, Stmt, VarId},
};
use std::collections::BTreeSet;

/// Places of statements in the kernel whose reductions have names.
pub(super) struct Place {
    /// Of the first reduction of the loop.
    pub first: usize,
    /// Of the last one.
    pub last: usize,
    /// Values along the axis by where they are read: of what stands before the loop, in it, behind it. A value may be in several.
    pub early: BTreeSet<usize>,
    pub inside: BTreeSet<usize>,
    pub late: BTreeSet<usize>,
    /// Between the reductions, what depends on them without having the axis.
    pub rest: BTreeSet<usize>,
}

impl Place {
    /// Whether a statement binds a value along the axis that goes where it is read.
    pub fn moves(known: &Known<'_>, at: usize) -> bool {
        let Stmt::Let { var, value } = &known.kernel.body[at] else { return false };
        known.lets.contains_key(var) && known.total(*var).is_none() && known.along(value)
    }
}

/// Finds the places.
pub(super) fn place(known: &Known<'_>, fold: &Fold) -> Result<Place, Box<Diagnostic>> {
    let body = &known.kernel.body;
    let at = |member: &super::Member| known.totals[member.total].at;
    let first = fold.members.first().map(at).unwrap_or_default();
    let last = fold.members.last().map(at).unwrap_or_default();
    let (mut early, mut inside, mut late) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut rest = BTreeSet::new();
    for (at, stmt) in body.iter().enumerate() {
        match stmt {
            _ if at < first && !Place::moves(known, at) => read(known, stmt, last, &mut early),
            _ if at > last => read(known, stmt, last, &mut late),
            Stmt::Let { value, var } if at > first && known.total(*var).is_none() => {
                let depends = known.depends_on(value).iter().any(|total| known.totals[*total].at >= first);
                if !Place::moves(known, at) && (depends || known.along(value)) {
                    rest.insert(at);
                    read(known, stmt, last, &mut late);
                }
            }
            Stmt::Let { .. } => {}
            _ if at > first => return Err(Box::new(between(known, fold, stmt))),
            _ => {}
        }
    }
    for member in &fold.members {
        looped(known, fold, &member.value, &mut inside)?;
    }
    let place = Place { first, last, early, inside, late, rest };
    for at in &place.inside | &place.late {
        unchanged(known, at, last)?;
    }
    let bound = place.inside.iter().filter_map(|at| match &body[*at] {
        Stmt::Let { value, .. } => Some(value),
        _ => None,
    });
    for value in bound.chain(fold.members.iter().map(|member| &member.value)) {
        not_stored(known, value)?;
    }
    limits(known, &place)?;
    Ok(place)
}

/// A statement that cannot stand between the reductions.
fn between(known: &Known<'_>, fold: &Fold, stmt: &Stmt) -> Diagnostic {
    let [a, b] =
        [fold.members.first(), fold.members.last()].map(|m| m.map_or("?", |m| known.name_of(m.total)));
    let (what, span) = match stmt {
        Stmt::Store { span, .. } => ("a store", *span),
        Stmt::For { span, .. } => ("a loop", *span),
        Stmt::Let { value, .. } | Stmt::Assign { value, .. } => ("an assignment", value.span),
    };
    refused(format!("{what} stands between `{a}` and `{b}`, which share a loop"))
        .note(span, "it stands here: write it before or behind both")
}

/// Collects the values along the axis, bound up to a place, that a statement reads.
fn read(known: &Known<'_>, stmt: &Stmt, last: usize, found: &mut BTreeSet<usize>) {
    stmt.each(&mut |inner| {
        inner.operands().into_iter().for_each(|value| values(known, value, last, found));
    });
}

fn values(known: &Known<'_>, value: &Expr, last: usize, found: &mut BTreeSet<usize>) {
    value.each(&mut |e| {
        let ExprKind::Var(var) = &e.kind else { return };
        let Some((at, value)) = known.lets.get(var) else { return };
        if *at <= last && Place::moves(known, *at) && found.insert(*at) {
            values(known, value, last, found);
        }
    });
}

/// Collects what the steps of the loop compute for a value of it.
fn looped(
    known: &Known<'_>,
    fold: &Fold,
    value: &Expr,
    found: &mut BTreeSet<usize>,
) -> Result<(), Box<Diagnostic>> {
    let mut read = Vec::new();
    value.each(&mut |e| {
        if let ExprKind::Var(var) = &e.kind {
            read.push((*var, e));
        }
    });
    for (var, e) in read {
        if known.total(var).is_some() {
            continue;
        }
        let follows =
            |value: &Expr| known.depends_on(value).iter().any(|total| fold.followed.contains(total));
        match known.lets.get(&var) {
            Some((at, value)) if (known.along(value) || follows(value)) && found.insert(*at) => {
                looped(known, fold, fold.inside.get(&var).unwrap_or(value), found)?;
            }
            None if known.along(e) => {
                let name = known.name(var);
                let text = format!(
                    "`{name}` is changed by a loop, and the reductions over its elements share another one"
                );
                let span = known.kernel.vars[usize::from(var.0)].span;
                return Err(Box::new(refused(text).note(span, format!("`{name}` is bound here"))));
            }
            _ => {}
        }
    }
    Ok(())
}

/// That a value may be computed after the last reduction instead: nothing before changes what it reads.
fn unchanged(known: &Known<'_>, at: usize, last: usize) -> Result<(), Box<Diagnostic>> {
    let Stmt::Let { var, value } = &known.kernel.body[at] else { return Ok(()) };
    let mut changed = None;
    for stmt in &known.kernel.body[at + 1..=last] {
        stmt.each(&mut |inner| {
            let (tensor, assigned, span) = match inner {
                Stmt::Store { tensor, span, .. } => (Some(*tensor), None, *span),
                Stmt::Assign { var, span, .. } => (None, Some(*var), *span),
                _ => return,
            };
            let reads = value.any(&|e| match &e.kind {
                ExprKind::Load { tensor: read, .. } => Some(*read) == tensor,
                ExprKind::Var(read) => Some(*read) == assigned,
                _ => false,
            });
            if reads {
                changed = Some(span);
            }
        });
    }
    let Some(span) = changed else { return Ok(()) };
    let name = known.name(*var);
    let text = format!("`{name}` is computed again in the loop, and what it reads has changed by then");
    let told = refused(text)
        .note(value.span, format!("`{name}` is computed here"))
        .note(span, "this changes what it reads");
    Err(Box::new(told))
}

/// That the loop reads nothing that the kernel stores to: the two would go over the tensor along axes of their own.
fn not_stored(known: &Known<'_>, value: &Expr) -> Result<(), Box<Diagnostic>> {
    let mut stored = None;
    value.each(&mut |e| {
        if let ExprKind::Load { tensor, .. } = &e.kind
            && known.kernel.tensors[usize::from(tensor.0)].mutable
        {
            stored.get_or_insert((*tensor, e.span));
        }
    });
    let Some((tensor, span)) = stored else { return Ok(()) };
    let [tensor, axis] = [
        &known.kernel.tensors[usize::from(tensor.0)].name,
        &known.kernel.axes[usize::from(known.axis.0)].name,
    ];
    let text =
        format!("the loop over `{axis}` reads `{tensor}`, which the kernel stores to, in a loop of its own");
    Err(Box::new(refused(text).note(span, "it is read here").remark("store to another tensor")))
}

/// That no limit of an axis in the loop follows the axis of the loop.
fn limits(known: &Known<'_>, place: &Place) -> Result<(), Box<Diagnostic>> {
    for (n, bound) in known.kernel.axes.iter().enumerate() {
        let axis = AxisId(n as u16);
        if !known.kernel.limiting_axes(axis).contains(&known.axis) {
            continue;
        }
        let inside = place.inside.iter().any(|at| mentions(axis, &known.kernel.body[*at]));
        if inside {
            let name = &known.kernel.axes[usize::from(known.axis.0)].name;
            let text = format!(
                "the limits of `{}` follow `{name}`, and the loop over `{name}` computes along both",
                bound.name
            );
            return Err(Box::new(refused(text).note(bound.span, format!("`{}` is bound here", bound.name))));
        }
    }
    Ok(())
}

/// How often an expression reads a variable.
pub(super) fn reads(value: &Expr, var: VarId) -> usize {
    let mut count = 0;
    value.each(&mut |e| count += usize::from(super::is_var(e, var)));
    count
}
