//! Variables that a loop over tiles only adds to: such a sum goes on in the type that it accumulates in, and is rounded
//! after the loop.

use super::{Expr, ExprKind, Stmt, VarId};
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
    fn uses(expr: &Expr, count: &mut BTreeMap<VarId, usize>) {
        if let ExprKind::Var(var) = expr.kind {
            *count.entry(var).or_default() += 1;
        }
        expr.children().into_iter().for_each(|e| uses(e, count));
    }
    fn walk(body: &[Stmt], sums: &mut Vec<VarId>, count: &mut BTreeMap<VarId, usize>) {
        for stmt in body {
            match stmt {
                Stmt::Let { value, .. } | Stmt::Store { value, .. } => uses(value, count),
                Stmt::Assign { var, value, .. } => {
                    uses(value, count);
                    // A second assignment is a second use.
                    if added(*var, value).is_some() {
                        sums.push(*var);
                    } else {
                        *count.entry(*var).or_default() += 1;
                    }
                }
                Stmt::For { body, .. } => walk(body, sums, count),
            }
        }
    }
    let (mut found, mut count) = (Vec::new(), BTreeMap::new());
    walk(body, &mut found, &mut count);
    found.retain(|var| count[var] == 1);
    found
}
