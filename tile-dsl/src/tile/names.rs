//! Names as the text of a kernel has them: two variables of one name are told apart where the first is read behind the second.
//!
//! In a text a name is that of the variable bound last among those in scope, or else that of a scalar parameter. Kernels that other
//! programs make may read a variable, or a parameter, that a later one of its name hides. Then the later one gets the first number
//! that is free, as a name that a kernel binds again has: `v.2`. Parameters, axes and dims keep their names, which launches and
//! schedules say; so do all variables of a kernel that its text tells apart as they are.
//!
//! [`Kernel::instantiate`] does it as well, so values of the nest, which schedules and diagnostics name, have the names of the text.

use super::{Expr, ExprKind, Kernel, Stmt, VarId};
use std::{borrow::Cow, ops::ControlFlow};

impl Kernel {
    /// The kernel with names that its text tells apart; as it is, mostly.
    pub fn named_apart(&self) -> Cow<'_, Kernel> {
        let mut kernel = Cow::Borrowed(self);
        // Each time a variable gets a name that no other has, so this comes to an end.
        while let Some(hiding) = hiding(&kernel) {
            let var = usize::from(hiding.0);
            let name = kernel.free_name(&kernel.vars[var].name);
            kernel.to_mut().vars[var].name = name;
        }
        kernel
    }

    /// The name with the first number that makes it one that nothing in the kernel has.
    fn free_name(&self, name: &str) -> String {
        let extents = self.tensors.iter().flat_map(|t| &t.dims).chain(self.axes.iter().map(|a| &a.extent));
        let dims: Vec<&String> = extents.flat_map(|extent| extent.dims.keys()).collect();
        let taken = |n: &str| {
            self.vars.iter().any(|v| v.name == n)
                || self.tensors.iter().any(|t| t.name == n)
                || self.scalars.iter().any(|s| s.name == n)
                || self.axes.iter().any(|a| a.name == n)
                || dims.iter().any(|dim| *dim == n)
        };
        (2..).map(|n| format!("{name}.{n}")).find(|n| !taken(n)).expect("unbounded")
    }
}

/// A variable that hides another one, or a parameter, that is read or assigned behind it.
fn hiding(kernel: &Kernel) -> Option<VarId> {
    let mut scope = Scope { kernel, visible: Vec::new() };
    match scope.block(&kernel.body) {
        ControlFlow::Break(var) => Some(var),
        ControlFlow::Continue(()) => None,
    }
}

/// The variables in scope at a statement, the last bound last.
struct Scope<'k> {
    kernel: &'k Kernel,
    visible: Vec<VarId>,
}

impl Scope<'_> {
    fn block(&mut self, body: &[Stmt]) -> ControlFlow<VarId> {
        let outside = self.visible.len();
        for stmt in body {
            for value in stmt.operands() {
                self.reads(value)?;
            }
            match stmt {
                Stmt::Let { var, .. } => self.visible.push(*var),
                Stmt::Assign { var, .. } => self.is_seen(*var)?,
                Stmt::For { body, .. } => self.block(body)?,
                Stmt::Store { .. } => {}
            }
        }
        self.visible.truncate(outside);
        ControlFlow::Continue(())
    }

    fn reads(&self, value: &Expr) -> ControlFlow<VarId> {
        match &value.kind {
            ExprKind::Var(var) => self.is_seen(*var)?,
            ExprKind::Scalar(scalar) => {
                let name = &self.kernel.scalars[usize::from(scalar.0)].name;
                if let Some(hiding) = self.called(name) {
                    return ControlFlow::Break(hiding);
                }
            }
            _ => {}
        }
        value.children().into_iter().try_for_each(|child| self.reads(child))
    }

    /// Stops at a variable that is meant where another one's name stands.
    fn is_seen(&self, var: VarId) -> ControlFlow<VarId> {
        match self.called(&self.kernel.vars[usize::from(var.0)].name) {
            Some(found) if found != var => ControlFlow::Break(found),
            _ => ControlFlow::Continue(()),
        }
    }

    /// What a name means here, if it is a variable.
    fn called(&self, name: &str) -> Option<VarId> {
        let is_called = |var: &&VarId| self.kernel.vars[usize::from(var.0)].name == name;
        self.visible.iter().rev().find(is_called).copied()
    }
}
