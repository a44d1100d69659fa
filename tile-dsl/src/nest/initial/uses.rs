//! Where the variables of a kernel are used and assigned.

use crate::{
    op::UnOp,
    tile::{self, ExprKind, VarId},
};

/// Whether a factor of a dot is a variable, rounded or not.
fn is_factor(e: &tile::Expr, var: VarId) -> bool {
    match &e.kind {
        ExprKind::Un(UnOp::Tf32, x) => is_var(x, var),
        _ => is_var(e, var),
    }
}

pub(super) fn is_var(e: &tile::Expr, var: VarId) -> bool {
    matches!(e.kind, ExprKind::Var(v) if v == var)
}

/// Uses of a variable: all of them, and those that are a direct operand of a dot.
#[derive(Default)]
pub(super) struct Uses {
    pub all: usize,
    pub dots: usize,
}

pub(super) fn assigned(var: VarId, stmts: &[tile::Stmt]) -> bool {
    stmts.iter().any(|s| match s {
        tile::Stmt::Assign { var: v, .. } => *v == var,
        tile::Stmt::For { body, .. } => assigned(var, body),
        _ => false,
    })
}

pub(super) fn count_uses(var: VarId, stmts: &[tile::Stmt]) -> Uses {
    fn stmt(var: VarId, s: &tile::Stmt, uses: &mut Uses) {
        match s {
            tile::Stmt::Let { value, .. }
            | tile::Stmt::Assign { value, .. }
            | tile::Stmt::Store { value, .. } => expr(var, value, uses),
            tile::Stmt::For { body, .. } => body.iter().for_each(|s| stmt(var, s, uses)),
        }
    }
    fn expr(var: VarId, e: &tile::Expr, uses: &mut Uses) {
        match &e.kind {
            ExprKind::Var(v) => uses.all += usize::from(*v == var),
            ExprKind::Un(_, a) | ExprKind::Cast(_, a) | ExprKind::Reduce(_, a, _) => expr(var, a, uses),
            ExprKind::Bin(_, a, b) | ExprKind::Cmp(_, a, b) => {
                expr(var, a, uses);
                expr(var, b, uses);
            }
            ExprKind::Select(a, b, c) => [a, b, c].into_iter().for_each(|e| expr(var, e, uses)),
            ExprKind::Dot(a, b, c) => {
                uses.dots += usize::from(is_factor(a, var)) + usize::from(is_factor(b, var));
                [a, b, c].into_iter().for_each(|e| expr(var, e, uses));
            }
            ExprKind::Load { .. }
            | ExprKind::Full { .. }
            | ExprKind::Iota(_)
            | ExprKind::Dim(_)
            | ExprKind::Const { .. }
            | ExprKind::Scalar(_) => {}
        }
    }
    let mut uses = Uses::default();
    stmts.iter().for_each(|s| stmt(var, s, &mut uses));
    uses
}
