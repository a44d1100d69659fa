//! Where the variables of a kernel are used and assigned.

use crate::{
    op::UnOp,
    tile::{self, ExprKind, VarId},
};
use std::cell::Cell;

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

/// How often a factor of a dot is loaded where a variable says.
fn places(e: &tile::Expr, var: VarId) -> usize {
    let loaded = match &e.kind {
        ExprKind::Un(UnOp::Tf32, x) => x,
        _ => e,
    };
    let ExprKind::Load { index, .. } = &loaded.kind else { return 0 };
    let count = Cell::new(0);
    for value in index.iter().filter_map(|entry| entry.value.as_ref()) {
        value.any(&|e| {
            count.set(count.get() + usize::from(is_var(e, var)));
            false
        });
    }
    count.get()
}

/// Uses of a variable: all of them, and those that are a direct operand of a dot or say where one is loaded.
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
            let of = |factor| usize::from(is_factor(factor, var)) + places(factor, var);
            uses.dots += of(a) + of(b);
        }
        _ => {}
    });
    uses
}
