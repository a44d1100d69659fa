//! Gives each reduction over an axis a variable of its own.
//!
//! ```text
//! let e = exp(v - max(v, n));   →   let e.max = max(v, n); let e = exp(v - e.max);
//! ```
//! The names are those that the nest has for them: the statement's, a dot, the operator's.

use super::refused;
use crate::{
    diagnostic::Diagnostic,
    index::AxisId,
    span::SpanId,
    tile::{Expr, ExprKind, Kernel, Stmt, ValueType, Var, VarId, make, statements},
};

/// Names the reductions over an axis that stand in statements outside of loops.
pub(super) fn name_reductions(kernel: &mut Kernel, axis: AxisId) -> Result<(), Diagnostic> {
    let types = kernel.value_types();
    let mut naming = Naming { axis, types, before: Vec::new(), stmt: String::new() };
    let mut body = Vec::new();
    for mut stmt in std::mem::take(&mut kernel.body) {
        match &mut stmt {
            Stmt::Let { var, value } => {
                naming.stmt = kernel.vars[usize::from(var.0)].name.clone();
                match naming.reduces(kernel, value) {
                    true => value.children_mut().into_iter().for_each(|x| naming.name(kernel, x)),
                    false => naming.name(kernel, value),
                }
            }
            Stmt::Store { tensor, .. } => {
                naming.stmt = kernel.tensors[usize::from(tensor.0)].name.clone();
                stmt.operands_mut().into_iter().for_each(|value| naming.name(kernel, value));
            }
            Stmt::For { axis: around, body: steps, .. } => {
                let mut found = None;
                statements(steps, &mut |inner| {
                    for value in inner.operands() {
                        value.each(&mut |e| {
                            if naming.reduces(kernel, e) {
                                found.get_or_insert(e.span);
                            }
                        });
                    }
                });
                if let Some(span) = found {
                    let [name, around] = [axis, *around].map(|a| kernel.axes[usize::from(a.0)].name.clone());
                    let text = format!("a reduction over `{name}` stands inside of the loop over `{around}`");
                    return Err(refused(text).note(span, "it stands here"));
                }
            }
            Stmt::Assign { .. } => {}
        }
        body.append(&mut naming.before);
        body.push(stmt);
    }
    kernel.body = body;
    Ok(())
}

struct Naming {
    axis: AxisId,
    types: Vec<ValueType>,
    /// Statements that go before the one at hand.
    before: Vec<Stmt>,
    /// Name of the statement at hand.
    stmt: String,
}

impl Naming {
    fn reduces(&self, kernel: &Kernel, value: &Expr) -> bool {
        match &value.kind {
            ExprKind::Reduce(_, _, axis) => *axis == self.axis,
            ExprKind::Dot(a, b, acc) => {
                let [a, b, acc] = [a, b, acc].map(|x| kernel.type_of(x, &self.types).axes);
                (a.contains(&self.axis) || b.contains(&self.axis)) && !acc.contains(&self.axis)
            }
            _ => false,
        }
    }

    fn name(&mut self, kernel: &mut Kernel, value: &mut Expr) {
        value.children_mut().into_iter().for_each(|child| self.name(kernel, child));
        if !self.reduces(kernel, value) {
            return;
        }
        let op = match &value.kind {
            ExprKind::Reduce(op, ..) => op.name(),
            _ => "dot",
        };
        let span = value.span;
        self.types.push(kernel.type_of(value, &self.types));
        let var = fresh(kernel, &format!("{}.{op}", self.stmt), false, span);
        let value = std::mem::replace(value, make::var(var, span));
        self.before.push(Stmt::Let { var, value });
    }
}

/// A new variable, called so or with the first number that is free: `v`, `v.2`.
pub(super) fn fresh(kernel: &mut Kernel, name: &str, mutable: bool, span: SpanId) -> VarId {
    let name = free_name(kernel, name);
    let id = VarId(kernel.vars.len() as u16);
    kernel.vars.push(Var { name, mutable, span });
    id
}

/// The name, or with the first number behind it that is free.
fn free_name(kernel: &Kernel, name: &str) -> String {
    let taken = |n: &str| kernel.vars.iter().any(|v| v.name == n);
    if !taken(name) {
        return name.to_string();
    }
    (2..).map(|n| format!("{name}.{n}")).find(|n| !taken(n)).expect("unbounded")
}
