//! `if c { store(..); .. }`.

use super::kernel::{Reader, call};
use syn::{Expr, Stmt as RustStmt};
use tile_dsl::tile::{self, ExprKind, Form, Operation, Stmt, TensorId};

impl Reader<'_> {
    /// `if c { store(..); .. }`: the stores, each under the condition.
    pub(super) fn condition(&mut self, choice: &syn::ExprIf) -> Option<Vec<Stmt>> {
        if let Some((otherwise, _)) = &choice.else_branch {
            return self.fail(
                otherwise,
                "`else` is not supported in a kernel",
                "choose the value, and store it once: `store(y, [i], select(c, a, b))`",
            );
        }
        if let Expr::Let(_) = &*choice.cond {
            return self.fail(
                &choice.cond,
                "`if let` is not supported in a kernel",
                "compare values: `if x > 0.0 { store(..); }`",
            );
        }
        let condition = self.expr(&choice.cond);
        let mut stores = Vec::new();
        for stmt in &choice.then_branch.stmts {
            match stmt {
                RustStmt::Expr(store @ Expr::Call(_), _)
                    if call(store).is_some_and(|(name, _)| super::kernel::stores(&name)) =>
                {
                    stores.extend(self.within(None, |reader| reader.statement(store)));
                }
                other => {
                    return self.fail(
                        other,
                        "an `if` has stores inside and nothing else",
                        "bind values before it, and choose between values with `select(condition, a, b)`",
                    );
                }
            }
        }
        if choice.then_branch.stmts.is_empty() {
            return self.fail(choice, "an `if` without a store", "the form is `if c { store(y, [i], v); }`");
        }
        let mut condition = condition?;
        let stored: Vec<TensorId> = stores
            .iter()
            .filter_map(|stmt| if let Stmt::Store { tensor, .. } = stmt { Some(*tensor) } else { None })
            .collect();
        let once = condition.any(&|e| match &e.kind {
            ExprKind::Load { tensor, .. } => stored.contains(tensor),
            ExprKind::Reduce(..) | ExprKind::Scan(..) | ExprKind::Dot(..) => true,
            _ => false,
        });
        // What a store changes, and what is costly, is read before all of them.
        if stores.len() > 1 && once {
            let span = condition.span;
            let var = self.unnamed_var("condition", span, false);
            let value = std::mem::replace(&mut condition, tile::Expr { kind: ExprKind::Var(var), span });
            stores.insert(0, Stmt::Let { var, value });
        }
        for stmt in &mut stores {
            if let Stmt::Store { when, span, .. } = stmt {
                *when = Some(condition.clone());
                self.spans.describe(*span, Operation::Form(Form::If).place());
            }
        }
        Some(stores)
    }
}
