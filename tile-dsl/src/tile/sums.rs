//! Variables that a loop over tiles only adds to: such a sum goes on in the type that it accumulates in, and is rounded
//! after the loop.

use super::{Expr, ExprKind, Stmt, VarId, expressions, statements};
use crate::op::BinOp;
use std::collections::BTreeMap;

/// What `var = value` adds to `var`, where it is `var + part` or `part + var`.
pub(crate) fn added(var: VarId, value: &Expr) -> Option<&Expr> {
    let ExprKind::Bin(BinOp::Add, a, b) = &value.kind else { return None };
    match (&a.kind, &b.kind) {
        (ExprKind::Var(v), _) if *v == var => Some(b),
        (_, ExprKind::Var(v)) if *v == var => Some(a),
        _ => None,
    }
}

/// Variables that a loop only adds to.
pub(crate) fn sums(body: &[Stmt]) -> Vec<VarId> {
    let (mut found, mut count) = (Vec::new(), BTreeMap::new());
    expressions(body, &mut |expr| {
        if let ExprKind::Var(var) = expr.kind {
            *count.entry(var).or_insert(0) += 1;
        }
    });
    statements(body, &mut |stmt| {
        let Stmt::Assign { var, value, .. } = stmt else { return };
        // A second assignment is a second use.
        match added(*var, value) {
            Some(_) => found.push(*var),
            None => *count.entry(*var).or_insert(0) += 1,
        }
    });
    found.retain(|var| count[var] == 1);
    found
}
