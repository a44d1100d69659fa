//! Whether the limits of a kernel are written out: each consumer of a limited axis masks.

use super::{declared, in_tile, inside, is_covered};
use crate::{
    index::AxisId,
    op::{BinOp, UnOp},
    span::SpanId,
    tile::{Expr, ExprKind, Kernel, Stmt, VarId, index},
};
use std::collections::{BTreeMap, BTreeSet};

/// Whether what consumes points of limited axes masks them: [`Kernel::apply_limits`] was there, and nothing has changed since.
pub(crate) fn unmasked(kernel: &Kernel) -> Option<AxisId> {
    if kernel.axes.iter().all(|axis| axis.limits.is_none()) {
        return None;
    }
    let mut masks = Masks { kernel, vars: kernel.vars_by_value(), open: Vec::new(), unmasked: None };
    masks.block(&kernel.body);
    masks.unmasked
}

/// Looks for consumers of limited axes without masks.
struct Masks<'k> {
    kernel: &'k Kernel,
    vars: BTreeMap<VarId, &'k Expr>,
    /// Loops around, each with the variables that its steps start anew.
    open: Vec<(AxisId, BTreeSet<VarId>)>,
    unmasked: Option<AxisId>,
}

impl Masks<'_> {
    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            stmt.operands().into_iter().for_each(|value| self.value(value));
            match stmt {
                Stmt::Let { .. } => {}
                Stmt::Assign { var, value, .. } => self.assign(*var, value),
                Stmt::For { axis, body, .. } => {
                    self.open.push((*axis, declared(body)));
                    self.block(body);
                    self.open.pop();
                }
                Stmt::Store { index, when, value, combine, .. } => {
                    let mut axes = index::affine_axes(index);
                    let typed = |value: &Expr| axes_of_value(self.kernel, &self.vars, value);
                    axes.extend(index::values(index).flat_map(typed));
                    axes.extend(self.open.iter().map(|(axis, _)| *axis));
                    if combine.is_some() {
                        axes.extend(typed(value));
                    }
                    let guards: Vec<&Expr> = when.iter().collect();
                    axes.into_iter().for_each(|axis| self.require(axis, self.holds(&guards, axis, false)));
                }
            }
        }
    }

    fn require(&mut self, axis: AxisId, masked: bool) {
        if !masked {
            self.unmasked = self.unmasked.or(Some(axis));
        }
    }

    /// Whether conditions together say that a point counts, or that the tile at hand has one.
    fn holds(&self, conditions: &[&Expr], axis: AxisId, of_tile: bool) -> bool {
        let limits = &self.kernel.axes[usize::from(axis.0)].limits;
        let wanted = match of_tile {
            false => inside(axis, limits),
            true => in_tile(axis, limits),
        };
        let Some(wanted) = wanted else { return true };
        let mut known = Vec::new();
        for condition in conditions {
            let plain = self.kernel.inlined(condition, &self.vars);
            plain.iter().for_each(|plain| conjuncts(plain, &mut known));
        }
        let mut all = Vec::new();
        conjuncts(&wanted, &mut all);
        all.iter().all(|one| known.contains(one))
    }

    /// The conditions of the `select` that a value is.
    fn conditions(value: &Expr) -> Vec<&Expr> {
        match &value.kind {
            ExprKind::Select(c, x, _) => [vec![&**c], Self::conditions(x)].concat(),
            ExprKind::Un(UnOp::Tf32, x) => Self::conditions(x),
            _ => vec![],
        }
    }

    fn value(&mut self, value: &Expr) {
        value.each(&mut |e| match &e.kind {
            ExprKind::Reduce(_, x, axis) | ExprKind::Scan(_, x, axis) => {
                self.require(*axis, self.holds(&Self::conditions(x), *axis, false));
            }
            ExprKind::Dot(a, b, acc) => {
                let [a_axes, b_axes, acc] = [a, b, acc].map(|x| axes_of_value(self.kernel, &self.vars, x));
                for axis in &(&a_axes & &b_axes) - &acc {
                    let either = [a, b].into_iter().any(|x| self.holds(&Self::conditions(x), axis, false));
                    self.require(axis, either);
                }
            }
            _ => {}
        });
    }

    fn assign(&mut self, var: VarId, value: &Expr) {
        let from = self.open.iter().rposition(|(_, own)| own.contains(&var)).map_or(0, |n| n + 1);
        let loops: Vec<AxisId> = self.open[from..].iter().map(|(axis, _)| *axis).collect();
        let stays = match &value.kind {
            ExprKind::Dot(_, _, acc) => acc,
            _ => value,
        };
        for axis in loops {
            let limited = !self.kernel.axes[usize::from(axis.0)].limits.is_none();
            let unchanged = stays.kind == ExprKind::Var(var);
            let covered = is_covered(var, value, &[axis].into());
            let kept = matches!(&stays.kind, ExprKind::Select(_, _, old) if old.kind == ExprKind::Var(var));
            let masked = kept && self.holds(&Self::conditions(stays), axis, true);
            self.require(axis, !limited || unchanged || covered || masked);
        }
    }
}

/// The axes of a value of a kernel whose literals may have no type.
fn axes_of_value(kernel: &Kernel, vars: &BTreeMap<VarId, &Expr>, value: &Expr) -> BTreeSet<AxisId> {
    let of = |e: &Expr| axes_of_value(kernel, vars, e);
    match &value.kind {
        ExprKind::Var(var) => match vars.get(var) {
            Some(value) => of(value),
            None => kernel.start_of(*var).map_or_else(BTreeSet::new, of),
        },
        ExprKind::Reduce(_, x, axis) => {
            let mut axes = of(x);
            axes.remove(axis);
            axes
        }
        ExprKind::Dot(_, _, acc) => of(acc),
        ExprKind::Load { index, .. } => {
            let values = index::values(index).flat_map(of);
            index::affine_axes(index).into_iter().chain(values).collect()
        }
        ExprKind::Iota(axis) => [*axis].into(),
        ExprKind::Full { axes, .. } => axes.iter().copied().collect(),
        _ => value.children().into_iter().flat_map(of).collect(),
    }
}

fn conjuncts(condition: &Expr, out: &mut Vec<Plain>) {
    match &condition.kind {
        ExprKind::Bin(BinOp::And, a, b) => {
            conjuncts(a, out);
            conjuncts(b, out);
        }
        _ => out.push(Plain(spanless(condition))),
    }
}

/// An expression by what it is, wherever it is written.
#[derive(PartialEq)]
struct Plain(Expr);

fn spanless(value: &Expr) -> Expr {
    let mut value = value.clone();
    value.each_mut(&mut |e| {
        e.span = SpanId::NONE;
        true
    });
    value
}
