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
    let mut found = false;
    tile::statements(stmts, &mut |s| found |= matches!(s, tile::Stmt::Assign { var: v, .. } if *v == var));
    found
}

pub(super) fn count_uses(var: VarId, stmts: &[tile::Stmt]) -> Uses {
    let mut uses = Uses::default();
    tile::expressions(stmts, &mut |e| match &e.kind {
        ExprKind::Var(v) => uses.all += usize::from(*v == var),
        ExprKind::Dot(a, b, _) => {
            uses.dots += usize::from(is_factor(a, var)) + usize::from(is_factor(b, var));
        }
        _ => {}
    });
    uses
}
