//! What the variables of a kernel stand for, and which totals each depends on.

use crate::{
    dtype::DType,
    index::AxisId,
    op::{BinOp, RedOp, UnOp},
    span::SpanId,
    tile::{Expr, ExprKind, Kernel, Stmt, ValueType, VarId, statements},
};
use std::collections::{BTreeMap, BTreeSet};

/// Totals, by their place among all of them.
pub(super) type Totals = BTreeSet<usize>;

/// A reduction over the axis at hand, outside of loops.
pub(super) struct Total {
    pub var: VarId,
    /// Place of its statement.
    pub at: usize,
    /// How it combines; a `dot` is a sum.
    pub op: RedOp,
    pub span: SpanId,
}

/// A kernel whose reductions over an axis have names, with what it is asked.
pub(super) struct Known<'k> {
    pub kernel: &'k Kernel,
    pub axis: AxisId,
    pub types: Vec<ValueType>,
    /// Statements outside of loops that bind what never changes: their places and values.
    pub lets: BTreeMap<VarId, (usize, &'k Expr)>,
    /// Reductions over the axis, in the order written.
    pub totals: Vec<Total>,
    /// The totals that each variable depends on; of a total, those that its terms depend on and itself.
    depends: BTreeMap<VarId, Totals>,
}

impl<'k> Known<'k> {
    pub fn new(kernel: &'k Kernel, axis: AxisId) -> Self {
        let types = kernel.value_types();
        let mut known = Known {
            kernel,
            axis,
            types,
            lets: BTreeMap::new(),
            totals: Vec::new(),
            depends: BTreeMap::new(),
        };
        for (at, stmt) in kernel.body.iter().enumerate() {
            let Stmt::Let { var, value } = stmt else {
                known.assigned_in(stmt);
                continue;
            };
            let mut depends = known.depends_on(value);
            if let Some(op) = known.reduction(value) {
                depends.insert(known.totals.len());
                known.totals.push(Total { var: *var, at, op, span: value.span });
            }
            known.depends.insert(*var, depends);
            if !kernel.vars[usize::from(var.0)].mutable {
                known.lets.insert(*var, (at, value));
            }
        }
        known
    }

    /// A loop makes what it assigns depend on all that it reads.
    fn assigned_in(&mut self, stmt: &Stmt) {
        let mut depends = Totals::new();
        statements(stmt.body(), &mut |s| {
            s.operands().into_iter().for_each(|value| depends.extend(self.depends_on(value)));
        });
        statements(stmt.body(), &mut |s| {
            if let Stmt::Let { var, .. } | Stmt::Assign { var, .. } = s {
                self.depends.entry(*var).or_default().extend(&depends);
            }
        });
    }

    /// How a value reduces over the axis, if it does.
    fn reduction(&self, value: &Expr) -> Option<RedOp> {
        match &value.kind {
            ExprKind::Reduce(op, _, axis) => (*axis == self.axis).then_some(*op),
            ExprKind::Dot(a, b, acc) => {
                let [a, b, acc] = [a, b, acc].map(|x| self.axes(x).contains(&self.axis));
                ((a || b) && !acc).then_some(RedOp::Add)
            }
            _ => None,
        }
    }

    /// The totals that an expression depends on.
    pub fn depends_on(&self, value: &Expr) -> Totals {
        let mut found = Totals::new();
        value.each(&mut |e| {
            if let ExprKind::Var(var) = &e.kind {
                found.extend(self.depends.get(var).into_iter().flatten());
            }
        });
        found
    }

    /// The total that a variable is.
    pub fn total(&self, var: VarId) -> Option<usize> {
        self.totals.iter().position(|total| total.var == var)
    }

    pub fn name(&self, var: VarId) -> &'k str {
        &self.kernel.vars[usize::from(var.0)].name
    }

    pub fn name_of(&self, total: usize) -> &'k str {
        self.name(self.totals[total].var)
    }

    pub fn type_of_total(&self, total: usize) -> &ValueType {
        &self.types[usize::from(self.totals[total].var.0)]
    }

    pub fn axes(&self, value: &Expr) -> BTreeSet<AxisId> {
        self.kernel.type_of(value, &self.types).axes
    }

    /// The axes of an expression where some variables have other values.
    pub fn axes_with(&self, values: &BTreeMap<VarId, Expr>, value: &Expr) -> BTreeSet<AxisId> {
        let types = |n: usize| {
            let mut found = self.types[n].clone();
            if let Some(value) = values.get(&VarId(n as u16)) {
                found.axes = self.axes_with(values, value);
            }
            Some(found)
        };
        self.kernel.typed(value, &types).axes
    }

    pub fn dtype(&self, value: &Expr) -> DType {
        self.kernel.type_of(value, &self.types).dtype()
    }

    /// Whether a value has an element for each point of the axis.
    pub fn along(&self, value: &Expr) -> bool {
        self.axes(value).contains(&self.axis)
    }

    /// What a variable stands for, through variables that stand for variables; totals stand for themselves.
    pub fn resolved<'a>(&'a self, value: &'a Expr) -> &'a Expr {
        let mut value = value;
        while let ExprKind::Var(var) = &value.kind
            && self.total(*var).is_none()
            && let Some((_, next)) = self.lets.get(var)
        {
            value = next;
        }
        value
    }

    /// A number that an expression is, whatever the inputs.
    pub fn constant(&self, value: &Expr) -> Option<f64> {
        let value = self.resolved(value);
        match &value.kind {
            ExprKind::Const { value, .. } | ExprKind::Full { value, .. } => Some(*value),
            ExprKind::Un(UnOp::Neg, x) => Some(-self.constant(x)?),
            ExprKind::Cast(_, x) if self.dtype(value).is_float() => self.constant(x),
            ExprKind::Bin(BinOp::Mul, a, b) => Some(self.constant(a)? * self.constant(b)?),
            ExprKind::Bin(BinOp::Div, a, b) => Some(self.constant(a)? / self.constant(b)?),
            _ => None,
        }
    }

    /// Whether two expressions are the same computation.
    pub fn same(&self, a: &Expr, b: &Expr) -> bool {
        let (a, b) = (self.resolved(a), self.resolved(b));
        let (left, right) = (a.children(), b.children());
        left.len() == right.len()
            && shell(a) == shell(b)
            && left.into_iter().zip(right).all(|(a, b)| self.same(a, b))
    }
}

/// An expression without its operands and places.
fn shell(value: &Expr) -> Expr {
    let nothing = Expr { kind: ExprKind::Const { value: 0.0, elem: None }, span: SpanId::NONE };
    let mut value = Expr { span: SpanId::NONE, ..value.clone() };
    value.children_mut().into_iter().for_each(|child| *child = nothing.clone());
    value
}
