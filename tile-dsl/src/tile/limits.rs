//! Limits: an axis whose points depend on those of others.
//!
//! ```text
//! let j = whole(N).below(i + 1);      ; of each i, the points 0 ≤ j ≤ i
//! m = sum(x, j)                       ; has the axis i, whether x has it or not
//! ```
//! A kernel says a limit where it binds the axis. [`Kernel::apply_limits`] writes it out, so that nothing behind it has to know of
//! limits: what follows is the same kernel, in which each consumer of a limited axis masks.
//!
//! | written | meant, where `in` is `lo <= iota(j) and iota(j) < hi` |
//! |---|---|
//! | `sum(x, j)` | `sum(select(in, x, 0), j)`; of `max` and `min` with their neutral elements |
//! | `dot(a, b, c)` over `j` | `dot(select(in, a, 0), b, c)`, or `b` if only `b` has all axes of the limit |
//! | `store(y, [i, j], v)` | `if in { store(y, [i, j], v) }` |
//! | `x = v` in `for j in tiles(..)` | `x = select(max(lo, tile_first(j)) < min(hi, tile_end(j)), v, x)`: tiles without points change nothing |
//!
//! So a tile of `j` without points for any of its rows does nothing, and the limits, which the axis keeps, say which tiles these are.

mod masks;

use super::{
    Axis, Expr, ExprKind, Form, Kernel, Stmt, ValueType, Var, VarId,
    make::{all, bin, cmp, expr, neutral, select},
    statements, verify,
};
use crate::{
    index::AxisId,
    op::{BinOp, CmpOp, RedOp},
    span::SpanId,
};
pub(crate) use masks::unmasked;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The points of an axis that count, of those below its extent: `from ≤ point < to`, for each point of the axes of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The first point, an `i32`; 0 if absent.
    pub from: Option<Expr>,
    /// The end, an `i32`; the extent if absent.
    pub to: Option<Expr>,
}

impl Limits {
    /// Whether all points of the axis count.
    pub fn is_none(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// How a kernel says them.
    pub fn form(&self) -> Form {
        if self.from.is_some() { Form::Between } else { Form::Below }
    }

    /// The first point and the end, as far as they are there.
    pub fn ends(&self) -> impl Iterator<Item = &Expr> {
        self.from.iter().chain(&self.to)
    }

    /// The same, to change them in place.
    pub fn ends_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.from.iter_mut().chain(&mut self.to)
    }
}

/// An end of the tile that a loop over tiles has at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Edge {
    /// Its first point.
    First,
    /// The point behind its last.
    End,
}

impl Edge {
    /// Both.
    pub const ALL: [Edge; 2] = [Edge::First, Edge::End];

    /// Name in the printed IRs.
    pub const fn name(self) -> &'static str {
        match self {
            Edge::First => "tile_first",
            Edge::End => "tile_end",
        }
    }

    /// Inverse of [`Edge::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|edge| edge.name() == name)
    }
}

impl Kernel {
    /// The axes on which the points of another depend.
    pub fn limiting_axes(&self, axis: AxisId) -> BTreeSet<AxisId> {
        let found = self.vars_by_value();
        let ends = self.axes[usize::from(axis.0)].limits.ends();
        ends.flat_map(|end| self.inlined(end, &found)).flat_map(|end| axes_of(&end)).collect()
    }

    /// What variables that keep their value stand for.
    fn vars_by_value(&self) -> BTreeMap<VarId, &Expr> {
        let mut found = BTreeMap::new();
        if self.axes.iter().all(|axis| axis.limits.is_none()) {
            return found;
        }
        statements(&self.body, &mut |stmt| {
            if let Stmt::Let { var, value } = stmt
                && !self.vars[usize::from(var.0)].mutable
            {
                found.insert(*var, value);
            }
        });
        found
    }

    /// What a variable that may change is bound to first.
    fn start_of(&self, var: VarId) -> Option<&Expr> {
        let mut found = None;
        statements(&self.body, &mut |stmt| match stmt {
            Stmt::Let { var: v, value } if *v == var => found = Some(value),
            _ => {}
        });
        found
    }

    /// An expression without variables; `None` where one may change.
    fn inlined(&self, expr: &Expr, vars: &BTreeMap<VarId, &Expr>) -> Option<Expr> {
        if let ExprKind::Var(var) = &expr.kind {
            return self.inlined(vars.get(var)?, vars);
        }
        let mut expr = expr.clone();
        for child in expr.children_mut() {
            *child = self.inlined(child, vars)?;
        }
        Some(expr)
    }

    /// A limit without variables, or the part of it that is not known before the loops that it limits.
    pub(super) fn known_before(&self, limit: &Expr) -> Result<Expr, Unknown> {
        let inlined = self.inlined(limit, &self.vars_by_value()).ok_or(Unknown::Variable)?;
        let mut unknown = None;
        inlined.each(&mut |e| match &e.kind {
            ExprKind::Load { tensor, .. } if self.tensors[usize::from(tensor.0)].mutable => {
                let name = self.tensors[usize::from(tensor.0)].name.clone();
                unknown.get_or_insert(Unknown::Stored(name));
            }
            ExprKind::Reduce(op, ..) => {
                unknown.get_or_insert(Unknown::Computed(op.name()));
            }
            ExprKind::Scan(op, ..) => {
                unknown.get_or_insert(Unknown::Computed(op.scan()));
            }
            ExprKind::Dot(..) => {
                unknown.get_or_insert(Unknown::Computed("dot"));
            }
            _ => {}
        });
        match unknown {
            Some(unknown) => Err(unknown),
            None => Ok(inlined),
        }
    }

    /// Writes out the limits of a kernel that [`super::verify`] accepts: see the [module](self). They stay with their axes, without
    /// variables. A kernel without limits stays as it is.
    ///
    /// # Panics
    /// If the kernel was not verified.
    pub fn apply_limits(&mut self) {
        if self.axes.iter().all(|axis| axis.limits.is_none()) {
            return;
        }
        verify::type_literals(self);
        let known = self.axes.iter().map(|axis| {
            let known = |end: &Expr| self.known_before(end).expect("limits are verified");
            Limits { from: axis.limits.from.as_ref().map(known), to: axis.limits.to.as_ref().map(known) }
        });
        let known: Vec<Limits> = known.collect();
        let named = self.name_loaded();
        // What follows asks for the axes of limits, while the body is away.
        for (axis, limits) in self.axes.iter_mut().zip(known) {
            axis.limits = limits;
        }
        let types = self.variable_types();
        let mut body = std::mem::take(&mut self.body);
        let mut writer = Writer { kernel: self, types, named, open: Vec::new() };
        writer.block(&mut body);
        self.body = body;
    }

    /// Names limits that are loaded, before what they limit: they are loaded once.
    fn name_loaded(&mut self) -> BTreeMap<AxisId, Limits> {
        let mut all = BTreeMap::new();
        for n in 0..self.axes.len() {
            let axis = AxisId(n as u16);
            let Axis { name, limits, .. } = self.axes[n].clone();
            if limits.is_none() {
                continue;
            }
            let mut named = |end: Option<Expr>, suffix: &str| {
                let end = end?;
                if !end.any(&|e| matches!(e.kind, ExprKind::Load { .. })) {
                    return Some(end);
                }
                let span = end.span;
                let var = VarId(self.vars.len() as u16);
                let mut bound = Some(Stmt::Let { var, value: end.clone() });
                insert_before(&mut self.body, axis, &mut bound);
                if bound.is_some() {
                    // Nothing has points of it.
                    return Some(end);
                }
                self.vars.push(Var { name: format!("{name}.{suffix}"), mutable: false, span });
                Some(Expr { kind: ExprKind::Var(var), span })
            };
            let limits = Limits { from: named(limits.from, "from"), to: named(limits.to, "to") };
            all.insert(axis, limits);
        }
        all
    }

    fn variable_types(&self) -> Vec<Option<ValueType>> {
        let mut types = vec![None; self.vars.len()];
        statements(&self.body, &mut |stmt| {
            if let Stmt::Let { var, value } = stmt {
                types[usize::from(var.0)] = Some(self.typed(value, &|v| types[v].clone()));
            }
        });
        types
    }
}

/// Variables that a block binds.
fn declared(body: &[Stmt]) -> BTreeSet<VarId> {
    let bound = body.iter().filter_map(|s| match s {
        Stmt::Let { var, .. } => Some(*var),
        _ => None,
    });
    bound.collect()
}

/// Why a limit is not known before the loops that it limits.
#[derive(Debug)]
pub(super) enum Unknown {
    /// A variable in it is `mut`.
    Variable,
    /// It is loaded from a tensor that the kernel stores to.
    Stored(String),
    /// It is computed by a reduction.
    Computed(&'static str),
}

/// The axes that an expression mentions, in its indices, too.
fn axes_of(expr: &Expr) -> BTreeSet<AxisId> {
    let mut found = BTreeSet::new();
    expr.each(&mut |e| match &e.kind {
        ExprKind::Iota(axis) => {
            found.insert(*axis);
        }
        ExprKind::Full { axes, .. } => found.extend(axes),
        ExprKind::Load { index, .. } => found.extend(super::index::affine_axes(index)),
        _ => {}
    });
    found
}

/// Puts a statement before the first that mentions an axis.
fn insert_before(body: &mut Vec<Stmt>, axis: AxisId, stmt: &mut Option<Stmt>) {
    let mentions = |stmt: &Stmt| {
        let mut found = false;
        stmt.each(&mut |inner| {
            found |= matches!(inner, Stmt::For { axis: a, .. } if *a == axis);
            let values = inner.operands().into_iter().flat_map(axes_of);
            let stored = match inner {
                Stmt::Store { index, .. } => super::index::affine_axes(index),
                _ => BTreeSet::new(),
            };
            found |= values.chain(stored).any(|a| a == axis);
        });
        found
    };
    let Some(at) = body.iter().position(mentions) else { return };
    let mut inside = false;
    body[at].each(&mut |inner| inside |= matches!(inner, Stmt::For { axis: a, .. } if *a == axis));
    if let Stmt::For { axis: own, body: inner, .. } = &mut body[at]
        && *own != axis
        && inside
    {
        return insert_before(inner, axis, stmt);
    }
    body.extend(stmt.take());
    body[at..].rotate_right(1);
}

struct Writer<'k> {
    kernel: &'k Kernel,
    /// Types of the variables.
    types: Vec<Option<ValueType>>,
    /// The limits, as masks mention them.
    named: BTreeMap<AxisId, Limits>,
    /// Loops around, each with the variables that its steps start anew.
    open: Vec<(AxisId, BTreeSet<VarId>)>,
}

/// The condition that a point of an axis counts; `None` of one without limits.
pub(super) fn inside(axis: AxisId, Limits { from, to }: &Limits) -> Option<Expr> {
    let point = |end: &Expr| expr(ExprKind::Iota(axis), end.span);
    let from = from.as_ref().map(|from| cmp(CmpOp::Ge, point(from), from.clone()));
    let to = to.as_ref().map(|to| cmp(CmpOp::Lt, point(to), to.clone()));
    all(from.into_iter().chain(to))
}

/// The condition that some point of the tile of an axis that is at hand counts.
pub(super) fn in_tile(axis: AxisId, Limits { from, to }: &Limits) -> Option<Expr> {
    let edge = |edge: Edge, span: SpanId| expr(ExprKind::Edge(axis, edge), span);
    let span = from.as_ref().or(to.as_ref())?.span;
    let (first, end) = (edge(Edge::First, span), edge(Edge::End, span));
    let first = match from {
        Some(from) if to.is_some() => bin(BinOp::Max, from.clone(), first),
        Some(from) => from.clone(),
        None => first,
    };
    let end = match to {
        Some(to) if from.is_some() => bin(BinOp::Min, to.clone(), end),
        Some(to) => to.clone(),
        None => end,
    };
    Some(cmp(CmpOp::Lt, first, end))
}

impl Writer<'_> {
    fn block(&mut self, body: &mut [Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Let { value, .. } => self.value(value),
                Stmt::Assign { var, value, .. } => self.assign(*var, value),
                Stmt::For { axis, body, .. } => {
                    self.open.push((*axis, declared(body)));
                    self.block(body);
                    self.open.pop();
                }
                Stmt::Store { index, when, combine, value, .. } => {
                    let mut axes = super::index::affine_axes(index);
                    axes.extend(super::index::values(index).flat_map(|v| self.typed(v).axes));
                    axes.extend(self.open.iter().map(|(axis, _)| *axis));
                    if combine.is_some() {
                        axes.extend(self.typed(value).axes);
                    }
                    let inside: Vec<Expr> = axes.iter().filter_map(|axis| self.inside(*axis)).collect();
                    index.iter_mut().filter_map(|i| i.value.as_deref_mut()).for_each(|v| self.value(v));
                    self.value(value);
                    when.iter_mut().for_each(|when| self.value(when));
                    *when = all(inside.into_iter().chain(when.take()));
                }
            }
        }
    }

    fn typed(&self, value: &Expr) -> ValueType {
        self.kernel.typed(value, &|v| self.types[v].clone())
    }

    fn limits(&self, axis: AxisId) -> Option<&Limits> {
        self.named.get(&axis)
    }

    /// The condition that a point of an axis counts.
    fn inside(&self, axis: AxisId) -> Option<Expr> {
        inside(axis, self.limits(axis)?)
    }

    /// The condition that some point of the tile at hand counts.
    fn in_tile(&self, axis: AxisId) -> Option<Expr> {
        in_tile(axis, self.limits(axis)?)
    }

    /// Masks reductions and products in a value.
    fn value(&self, value: &mut Expr) {
        value.children_mut().into_iter().for_each(|child| self.value(child));
        match &mut value.kind {
            ExprKind::Reduce(op, x, axis) | ExprKind::Scan(op, x, axis) => {
                let Some(inside) = self.inside(*axis) else { return };
                let none = neutral(*op, self.typed(x).elem, x.span);
                mask(x, inside, none);
            }
            ExprKind::Dot(a, b, acc) => {
                let (left, right) = (self.typed(a), self.typed(b));
                let contracted = &(&left.axes & &right.axes) - &self.typed(acc).axes;
                for axis in contracted {
                    let Some(inside) = self.inside(axis) else { continue };
                    let needed = self.kernel.limiting_axes(axis);
                    let both = !needed.is_subset(&left.axes) && needed.is_subset(&right.axes);
                    let (factor, elem) = if both { (&mut *b, right.elem) } else { (&mut *a, left.elem) };
                    let factor = match &mut factor.kind {
                        // Rounded to it is the factor that is left.
                        ExprKind::Un(crate::op::UnOp::Tf32, inner) => inner,
                        _ => factor,
                    };
                    let none = neutral(RedOp::Add, elem, factor.span);
                    mask(factor, inside, none);
                }
            }
            _ => {}
        }
    }

    /// `var = value`: in tiles without points, `var` stays what it is.
    fn assign(&self, var: VarId, value: &mut Expr) {
        let from = self.open.iter().rposition(|(_, own)| own.contains(&var)).map_or(0, |n| n + 1);
        let loops: BTreeSet<AxisId> =
            self.open[from..].iter().map(|(axis, _)| *axis).filter(|a| self.limits(*a).is_some()).collect();
        let whole = is_covered(var, value, &loops);
        let product = match &value.kind {
            ExprKind::Dot(a, b, acc) => {
                let axes = &(&self.typed(a).axes & &self.typed(b).axes) - &self.typed(acc).axes;
                loops.is_subset(&axes)
            }
            _ => false,
        };
        self.value(value);
        let Some(some) = all(loops.iter().filter_map(|axis| self.in_tile(*axis))) else { return };
        if !whole {
            keep(var, value, some, product);
        }
    }
}

/// `var = value` where a condition holds; elsewhere `var` stays what it is. `product`: `value` is a `dot` whose sum is none there.
pub(super) fn keep(var: VarId, value: &mut Expr, condition: Expr, product: bool) {
    let kept = |at: SpanId| expr(ExprKind::Var(var), at);
    match &mut value.kind {
        ExprKind::Dot(_, _, acc) if product && acc.kind == ExprKind::Var(var) => {}
        ExprKind::Dot(_, _, acc) if product => {
            let none = kept(acc.span);
            mask(acc, condition, none);
        }
        _ => {
            let none = kept(value.span);
            mask(value, condition, none);
        }
    }
}

fn mask(value: &mut Expr, condition: Expr, otherwise: Expr) {
    let span = value.span;
    let inner = std::mem::replace(value, expr(ExprKind::Var(VarId(0)), span));
    *value = select(condition, inner, otherwise);
}

/// Whether `var = value` is `var ⊕ f` where f is a reduction by ⊕ over all of some axes, which of no points changes nothing.
pub(super) fn is_covered(var: VarId, value: &Expr, loops: &BTreeSet<AxisId>) -> bool {
    let ExprKind::Bin(op, a, b) = &value.kind else { return false };
    let Some(op) = RedOp::combined_by(*op) else { return false };
    let is_var = |e: &Expr| e.kind == ExprKind::Var(var);
    let mut part = match (is_var(a), is_var(b)) {
        (true, false) => b,
        (false, true) => a,
        _ => return false,
    };
    let mut left = loops.clone();
    while let ExprKind::Reduce(inner, x, axis) = &part.kind
        && *inner == op
    {
        left.remove(axis);
        part = x;
    }
    left.is_empty()
}
