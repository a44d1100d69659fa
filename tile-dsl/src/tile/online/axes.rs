//! Axes in statements: whether they are there, and others for them.

use crate::{
    index::{Affine, AxisId},
    tile::{Expr, ExprKind, Index, Stmt, statements},
};

/// Whether a statement mentions an axis.
pub(super) fn mentions(axis: AxisId, stmt: &Stmt) -> bool {
    let mut found = false;
    statements(std::slice::from_ref(stmt), &mut |inner| {
        match inner {
            Stmt::For { axis: own, .. } => found |= *own == axis,
            Stmt::Store { index, .. } => found |= index.iter().any(|i| i.affine.coefficient(axis) != 0),
            Stmt::Let { .. } | Stmt::Assign { .. } => {}
        }
        for value in inner.operands() {
            value.each(&mut |e| found |= mentioned(e, axis));
        }
    });
    found
}

fn mentioned(e: &Expr, axis: AxisId) -> bool {
    match &e.kind {
        ExprKind::Load { index, .. } => index.iter().any(|i| i.affine.coefficient(axis) != 0),
        ExprKind::Full { axes, .. } => axes.contains(&axis),
        ExprKind::Iota(own)
        | ExprKind::Edge(own, _)
        | ExprKind::Reduce(_, _, own)
        | ExprKind::Scan(_, _, own) => *own == axis,
        _ => false,
    }
}

/// Other axes in statements.
pub(super) fn renamed(body: &mut [Stmt], name: &dyn Fn(AxisId) -> AxisId) {
    for stmt in body {
        stmt.each_mut(&mut |inner| {
            match inner {
                Stmt::For { axis, .. } => *axis = name(*axis),
                Stmt::Store { index, .. } => of_index(index, name),
                Stmt::Let { .. } | Stmt::Assign { .. } => {}
            }
            inner.operands_mut().into_iter().for_each(|value| renamed_in(value, name));
        });
    }
}

/// Other axes in an expression.
pub(super) fn renamed_in(value: &mut Expr, name: &dyn Fn(AxisId) -> AxisId) {
    value.each_mut(&mut |e| {
        match &mut e.kind {
            ExprKind::Load { index, .. } => of_index(index, name),
            ExprKind::Full { axes, .. } => axes.iter_mut().for_each(|axis| *axis = name(*axis)),
            ExprKind::Iota(axis)
            | ExprKind::Edge(axis, _)
            | ExprKind::Reduce(_, _, axis)
            | ExprKind::Scan(_, _, axis) => *axis = name(*axis),
            _ => {}
        }
        true
    });
}

fn of_index(index: &mut [Index], name: &dyn Fn(AxisId) -> AxisId) {
    for entry in index {
        let Affine { terms, .. } = &mut entry.affine;
        *terms = std::mem::take(terms).into_iter().map(|(axis, times)| (name(axis), times)).collect();
    }
}
