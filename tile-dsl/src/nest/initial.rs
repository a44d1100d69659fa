//! From a tile kernel to its unscheduled nest: one loop per axis, program axes outermost, a `let` per statement.
//!
//! - Each `let` of the kernel is a statement; a reduction or dot nested in it gets its own value, named
//!   `statement.op` (`e.max`). Literals, and loads that are used once or only by dots, stay inline.
//! - `x = x ⊕ f` and `x = dot(.., x)`, where `x` has no other use in the loops that it is carried through, is a plain
//!   reduction over the whole axes of these loops. Its initial value folds into the value table when it is a literal.
//! - The value of a reduction has the type it accumulates in ([`RedOp::accumulator`]); it is rounded where it is used.

use super::{
    Access, AccessId, Expr, Nest, Order, Placement, Stmt, Value, ValueId,
    assemble::{Axes, Item, assemble, digit, drop_unread, loops},
};
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    index::{Affine, AxisId},
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{self, AxisKind, ElemType, ExprKind, VarId},
};
use std::collections::{BTreeMap, BTreeSet};

/// The unscheduled nest of an instantiated kernel: per point, program axes outermost.
///
/// # Errors
/// A kernel that stores nothing, or whose loop is a recurrence other than a plain reduction.
pub fn initial(kernel: &tile::Kernel) -> Result<Nest, Diagnostic> {
    let (values, accesses) = (Vec::new(), Vec::new());
    let mut build = Build { kernel, values, accesses, env: BTreeMap::new(), open: Vec::new() };
    let mut items = Vec::new();
    build.stmts(&kernel.body, &mut items)?;
    drop_unread(&mut items);
    let program: Vec<AxisId> =
        axis_ids(kernel).filter(|a| build.axis(*a).kind == AxisKind::Program).collect();
    let bound: Axes = program.iter().copied().collect();
    let body = assemble(kernel, items, &bound)
        .ok_or_else(|| Diagnostic::new(SpanId::NONE, "the kernel stores nothing".to_string()))?;
    let body = loops(kernel, &program, body);
    let names = axis_ids(kernel).map(|a| (build.axis(a).name.clone(), digit(kernel, a))).collect();
    Ok(Nest {
        kernel: kernel.clone(),
        values: build.values,
        accesses: build.accesses,
        copies: Vec::new(),
        body,
        bounds: BTreeMap::new(),
        names,
        combine: BTreeMap::new(),
        across: BTreeMap::new(),
        column_major: BTreeSet::new(),
        occupancy: None,
        skew: BTreeMap::new(),
        assemble: None,
        order: Order::Row,
    })
}

/// What a variable stands for: an inline expression (`get`, `ld`, a literal) with its axes and type.
#[derive(Clone)]
struct Binding {
    expr: Expr,
    axes: Axes,
    dtype: DType,
}

struct Build<'a> {
    kernel: &'a tile::Kernel,
    values: Vec<Value>,
    accesses: Vec<Access>,
    env: BTreeMap<VarId, Binding>,
    /// Loops over tiles around the current statement, outermost first.
    open: Vec<Open<'a>>,
}

/// A loop over tiles.
struct Open<'a> {
    axis: AxisId,
    body: &'a [tile::Stmt],
    span: SpanId,
    /// Variables that each step starts anew.
    declared: BTreeSet<VarId>,
    /// Reductions that start before the loop and end with it.
    values: Vec<ValueId>,
    carried: Vec<Carried>,
}

/// A variable that a loop over tiles accumulates into.
struct Carried {
    var: VarId,
    name: String,
    op: RedOp,
    /// What it starts with joins after the loop.
    outside: bool,
    start: Binding,
    /// What the loops add up.
    total: Binding,
    at: SpanId,
}

fn axis_ids(kernel: &tile::Kernel) -> impl Iterator<Item = AxisId> + use<> {
    (0..kernel.axes.len() as u16).map(AxisId)
}

fn dtype(elem: ElemType) -> DType {
    match elem {
        ElemType::Fixed(t) => t,
        // `Kernel::instantiate` leaves none; the widest type keeps the nest meaningful if one slips through.
        ElemType::Generic => DType::F32,
    }
}

impl<'a> Build<'a> {
    fn axis(&self, axis: AxisId) -> &tile::Axis {
        &self.kernel.axes[usize::from(axis.0)]
    }

    fn stmts(&mut self, stmts: &'a [tile::Stmt], items: &mut Vec<Item>) -> Result<(), Diagnostic> {
        for (n, stmt) in stmts.iter().enumerate() {
            match stmt {
                tile::Stmt::Let { var, value } => self.bind(*var, value, &stmts[n + 1..], items)?,
                tile::Stmt::Assign { var, value, .. } => self.bind(*var, value, &stmts[n + 1..], items)?,
                tile::Stmt::For { axis, body, span } => self.axis_loop(*axis, body, *span, items)?,
                tile::Stmt::Store { tensor, index, value, span } => {
                    let name = self.kernel.tensors[usize::from(tensor.0)].name.clone();
                    let want = dtype(self.kernel.tensors[usize::from(tensor.0)].elem);
                    let value = self.expr(value, Some(want), &name, items)?;
                    let access = self.access(*tensor, index, *span);
                    let axes = index_axes(index);
                    let leaf = Stmt::Put { access, expr: value.expr };
                    items.push(Item::Effect { axes, over: Axes::new(), leaf });
                }
            }
        }
        Ok(())
    }

    /// `let var = value` or `var = value`: a statement, or an inline expression.
    fn bind(
        &mut self,
        var: VarId,
        value: &tile::Expr,
        after: &[tile::Stmt],
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let want = self.env.get(&var).map(|b| b.dtype);
        let inline = match &value.kind {
            ExprKind::Full { .. } | ExprKind::Const { .. } => true,
            ExprKind::Load { tensor, .. } => {
                let uses = count_uses(var, after);
                !self.stored(*tensor) && !assigned(var, after) && (uses.all <= 1 || uses.all == uses.dots)
            }
            _ => false,
        };
        let info = &self.kernel.vars[usize::from(var.0)];
        let name = self.fresh(&info.name);
        let span = value.span;
        let binding = match &value.kind {
            _ if inline => self.expr(value, want, &name, items)?,
            ExprKind::Reduce(op, x, axis) => {
                self.one_tile(&[*axis].into(), span)?;
                let x = self.expr(x, want, &name, items)?;
                self.reduce(name, *op, x, *axis, span, items)
            }
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, want, &name, items)?;
                let (product, over) = self.product(a, b, &acc, &name, items)?;
                self.one_tile(&over, span)?;
                match literal(&acc.expr) {
                    Some(init) => {
                        let product = Binding { axes: &acc.axes | &product.axes, ..product };
                        self.reduction(name, RedOp::Add, product, &over, Some(init), span, items)
                    }
                    None => {
                        let sum = format!("{name}.dot");
                        let dot = self.reduction(sum, RedOp::Add, product, &over, None, span, items);
                        self.define(name, combine(BinOp::Add, acc, dot), span, items)
                    }
                }
            }
            _ => {
                let value = self.expr(value, want, &name, items)?;
                self.define(name, value, span, items)
            }
        };
        self.env.insert(var, binding);
        Ok(())
    }

    /// `for axis in tiles(..) { body }`.
    fn axis_loop(
        &mut self,
        axis: AxisId,
        body: &'a [tile::Stmt],
        span: SpanId,
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let declared = body
            .iter()
            .filter_map(|s| if let tile::Stmt::Let { var, .. } = s { Some(*var) } else { None })
            .collect();
        self.open.push(Open { axis, body, span, declared, values: Vec::new(), carried: Vec::new() });
        let mut inner = Vec::new();
        for (n, stmt) in body.iter().enumerate() {
            match stmt {
                tile::Stmt::Assign { var, value, span: at }
                    if self.carried_through(*var) < self.open.len() =>
                {
                    self.accumulate(*var, value, *at, &mut inner)?;
                }
                tile::Stmt::Assign { var, value, .. } => {
                    self.bind(*var, value, &body[n + 1..], &mut inner)?
                }
                _ => self.stmts_one(stmt, &body[n..], &mut inner)?,
            }
        }
        let Open { values, carried, .. } = self.open.pop().expect("pushed above");
        items.push(Item::Loop { axis, values, body: inner });
        for Carried { var, name, op, outside, start, total, at } in carried {
            let dtype = start.dtype;
            let total = if outside {
                let sum = combine(op.combine(), cast(start, total.dtype), total);
                self.define(name, cast(sum, dtype), at, items)
            } else {
                cast(total, dtype)
            };
            self.env.insert(var, total);
        }
        Ok(())
    }

    /// The outermost of the open loops that a variable is carried through: as many loops are around its declaration.
    fn carried_through(&self, var: VarId) -> usize {
        self.open.iter().rposition(|o| o.declared.contains(&var)).map_or(0, |n| n + 1)
    }

    /// `var = value` in loops that `var` is carried through: a reduction over their axes.
    fn accumulate(
        &mut self,
        var: VarId,
        value: &tile::Expr,
        at: SpanId,
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let from = self.carried_through(var);
        let name = self.kernel.vars[usize::from(var.0)].name.clone();
        let loops: Axes = self.open[from..].iter().map(|o| o.axis).collect();
        let (outermost, innermost) = (&self.open[from], self.open.last().expect("in a loop"));
        let (span, over_axis) = (innermost.span, self.axis(innermost.axis).name.clone());
        let refuse = |why: &str| {
            Diagnostic::new(at, format!(
                "`{name}` is carried from one tile of `{over_axis}` to the next and {why}: only reductions of the form \
                 `x = x + f`, `x = max(x, f)`, `x = min(x, f)` and `x = dot(.., x)` are supported in a loop over tiles",
            ))
            .note(span, "in this loop")
        };
        let again = count_uses(var, outermost.body).all != 1;
        let start = self.env.get(&var).cloned().ok_or_else(|| refuse("has no value before the loop"))?;
        if again {
            return Err(refuse("is used a second time in the loop"));
        }
        let (op, part, over) = match &value.kind {
            ExprKind::Dot(a, b, acc) if is_var(acc, var) => {
                let (product, over) = self.product(a, b, &start, &name, items)?;
                (RedOp::Add, product, over)
            }
            ExprKind::Bin(op, x, y) => {
                let red = match op {
                    BinOp::Max => RedOp::Max,
                    BinOp::Min => RedOp::Min,
                    BinOp::Add => RedOp::Add,
                    _ => return Err(refuse("is updated by another operator")),
                };
                let mut part = match (is_var(x, var), is_var(y, var)) {
                    (true, _) => y,
                    (_, true) => x,
                    _ => return Err(refuse("is not updated by one operator")),
                };
                // `acc + sum(f, axis)` over the tiles of the axis is the sum of f over the whole axis.
                let mut left = loops.clone();
                while let ExprKind::Reduce(inner, f, a) = &part.kind {
                    if *inner != red || !left.remove(a) {
                        break;
                    }
                    part = f;
                }
                let part = self.expr(part, Some(start.dtype), &name, items)?;
                let over = &part.axes - &start.axes;
                (red, part, over)
            }
            _ => return Err(refuse("is not updated by a reduction")),
        };
        if !loops.is_subset(&over) || over != loops && !matches!(value.kind, ExprKind::Dot(..)) {
            return Err(refuse("gains the same amount however many points a tile has"));
        }
        let init = literal(&start.expr).map(|c| f64::from(start.dtype.round(c as f32)));
        let unique = self.fresh(&name);
        let red_name = if init.is_some() { unique.clone() } else { format!("{unique}.{}", op.name()) };
        // `dot` says itself what it accumulates in.
        let wide = match value.kind {
            ExprKind::Dot(..) => start.dtype,
            _ => op.accumulator(start.dtype),
        };
        let id = self.new_value(red_name, &start.axes, wide, Some(op), init, at);
        let leaf = Stmt::Red { value: id, op, expr: cast(part, wide).expr };
        items.push(Item::Effect { axes: start.axes.clone(), over, leaf });
        let total = Binding { expr: Expr::Get(id), axes: start.axes.clone(), dtype: wide };
        let outside = init.is_none();
        self.open[from].values.push(id);
        self.open[from].carried.push(Carried { var, name: unique, op, outside, start, total, at });
        Ok(())
    }

    /// A reduction over the axis of an open loop that is no step of an accumulation sees one tile only.
    fn one_tile(&self, over: &Axes, span: SpanId) -> Result<(), Diagnostic> {
        let Some(open) = self.open.iter().find(|o| over.contains(&o.axis)) else { return Ok(()) };
        let axis = &self.axis(open.axis).name;
        let text = format!(
            "this reduces over one tile of `{axis}` at a time, so its value depends on the size of the tile: in a loop over tiles, \
             reduce over `{axis}` as `x = x + sum(.., {axis})`, `max`, `min` or `dot(.., x)`, or reduce outside of the loop with `whole(..)`"
        );
        Err(Diagnostic::new(span, text).note(open.span, format!("in this loop over tiles of `{axis}`")))
    }

    fn stmts_one(
        &mut self,
        stmt: &'a tile::Stmt,
        from: &'a [tile::Stmt],
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        match stmt {
            tile::Stmt::Let { var, value } => self.bind(*var, value, &from[1..], items),
            other => self.stmts(std::slice::from_ref(other), items),
        }
    }

    /// `a · b` widened to the accumulator's type, and the axes it contracts.
    fn product(
        &mut self,
        a: &tile::Expr,
        b: &tile::Expr,
        acc: &Binding,
        name: &str,
        items: &mut Vec<Item>,
    ) -> Result<(Binding, Axes), Diagnostic> {
        let a = cast(self.expr(a, None, name, items)?, acc.dtype);
        let b = cast(self.expr(b, None, name, items)?, acc.dtype);
        let product = combine(BinOp::Mul, a, b);
        let over = &product.axes - &acc.axes;
        Ok((product, over))
    }

    fn define(&mut self, name: String, value: Binding, span: SpanId, items: &mut Vec<Item>) -> Binding {
        let id = self.new_value(name, &value.axes, value.dtype, None, None, span);
        let leaf = Stmt::Def { value: id, expr: value.expr };
        items.push(Item::Compute { value: id, axes: value.axes.clone(), over: Axes::new(), leaf });
        Binding { expr: Expr::Get(id), axes: value.axes, dtype: value.dtype }
    }

    /// `op(part, axis)`, of the type of `part`.
    fn reduce(
        &mut self,
        name: String,
        op: RedOp,
        part: Binding,
        axis: AxisId,
        span: SpanId,
        items: &mut Vec<Item>,
    ) -> Binding {
        let dtype = part.dtype;
        let part = cast(part, op.accumulator(dtype));
        cast(self.reduction(name, op, part, &[axis].into(), None, span, items), dtype)
    }

    #[allow(clippy::too_many_arguments)]
    fn reduction(
        &mut self,
        name: String,
        op: RedOp,
        part: Binding,
        over: &Axes,
        init: Option<f64>,
        span: SpanId,
        items: &mut Vec<Item>,
    ) -> Binding {
        let axes = &part.axes - over;
        let id = self.new_value(name, &axes, part.dtype, Some(op), init, span);
        let leaf = Stmt::Red { value: id, op, expr: part.expr };
        items.push(Item::Compute { value: id, axes: axes.clone(), over: over.clone(), leaf });
        Binding { expr: Expr::Get(id), axes, dtype: part.dtype }
    }

    fn new_value(
        &mut self,
        name: String,
        axes: &Axes,
        dtype: DType,
        reduction: Option<RedOp>,
        init: Option<f64>,
        span: SpanId,
    ) -> ValueId {
        let name = self.fresh(&name);
        let neutral = reduction.map(|op| f64::from(op.neutral()));
        let init = init.filter(|c| neutral != Some(*c));
        self.values.push(Value {
            name,
            axes: axes.clone(),
            dtype,
            reduction,
            init,
            placement: Placement::Register,
            span,
        });
        ValueId(self.values.len() as u16 - 1)
    }

    /// `name`, or `name.2`, `name.3`, .. if it is taken.
    fn fresh(&self, name: &str) -> String {
        let taken = |n: &str| self.values.iter().any(|v| v.name == n);
        if !taken(name) {
            return name.to_string();
        }
        (2..).map(|n| format!("{name}.{n}")).find(|n| !taken(n)).expect("unbounded")
    }

    fn access(&mut self, tensor: tile::TensorId, index: &[Affine], span: SpanId) -> AccessId {
        if let Some(n) = self.accesses.iter().position(|a| a.tensor == tensor && a.index == index) {
            return AccessId(n as u16);
        }
        self.accesses.push(Access { tensor, index: index.to_vec(), span });
        AccessId(self.accesses.len() as u16 - 1)
    }

    fn stored(&self, tensor: tile::TensorId) -> bool {
        self.kernel.tensors[usize::from(tensor.0)].mutable
    }

    /// Type of an expression, `None` for a bare literal.
    fn dtype_of(&self, e: &tile::Expr) -> Option<DType> {
        match &e.kind {
            ExprKind::Load { tensor, .. } => Some(dtype(self.kernel.tensors[usize::from(tensor.0)].elem)),
            ExprKind::Full { elem, .. } | ExprKind::Cast(elem, _) => Some(dtype(*elem)),
            ExprKind::Const { elem, .. } => elem.map(dtype),
            ExprKind::Iota(_) | ExprKind::Dim(_) => Some(DType::I32),
            ExprKind::Scalar(s) => Some(dtype(self.kernel.scalars[usize::from(s.0)].elem)),
            ExprKind::Var(v) => self.env.get(v).map(|b| b.dtype),
            ExprKind::Un(_, a) | ExprKind::Reduce(_, a, _) => self.dtype_of(a),
            ExprKind::Bin(_, a, b) => self.dtype_of(a).or_else(|| self.dtype_of(b)),
            ExprKind::Cmp(..) => Some(DType::Bool),
            ExprKind::Select(_, a, b) => self.dtype_of(a).or_else(|| self.dtype_of(b)),
            ExprKind::Dot(_, _, c) => self.dtype_of(c),
        }
    }

    /// Translates an expression; reductions in it become items, named after `stmt`.
    fn expr(
        &mut self,
        e: &tile::Expr,
        want: Option<DType>,
        stmt: &str,
        items: &mut Vec<Item>,
    ) -> Result<Binding, Diagnostic> {
        let own = self.dtype_of(e).or(want).unwrap_or(DType::F32);
        let point = |expr: Expr, axes: Axes| Binding { expr, axes, dtype: own };
        Ok(match &e.kind {
            ExprKind::Load { tensor, index } => {
                let access = self.access(*tensor, index, e.span);
                point(Expr::Load(access), index_axes(index))
            }
            ExprKind::Full { value, axes, .. } => {
                point(Expr::Const(*value, own), axes.iter().copied().collect())
            }
            ExprKind::Const { value, .. } => point(Expr::Const(*value, own), Axes::new()),
            ExprKind::Iota(a) => point(Expr::Iota(*a), [*a].into()),
            ExprKind::Dim(d) => point(Expr::Dim(crate::index::Extent::dim(d)), Axes::new()),
            ExprKind::Scalar(s) => point(Expr::Scalar(*s), Axes::new()),
            ExprKind::Var(v) => self.env.get(v).cloned().ok_or_else(|| {
                let name = &self.kernel.vars[usize::from(v.0)].name;
                Diagnostic::new(e.span, format!("`{name}` has no value here"))
            })?,
            ExprKind::Un(op, a) => {
                let a = self.expr(a, Some(own), stmt, items)?;
                point(Expr::Un(*op, Box::new(a.expr)), a.axes)
            }
            ExprKind::Bin(op, a, b) => {
                let a = self.expr(a, Some(own), stmt, items)?;
                let b = self.expr(b, Some(own), stmt, items)?;
                combine(*op, a, b)
            }
            ExprKind::Cmp(op, a, b) => {
                let side = self.dtype_of(a).or_else(|| self.dtype_of(b));
                let a = self.expr(a, side, stmt, items)?;
                let b = self.expr(b, side, stmt, items)?;
                point(Expr::Cmp(*op, Box::new(a.expr), Box::new(b.expr)), &a.axes | &b.axes)
            }
            ExprKind::Select(c, a, b) => {
                let c = self.expr(c, Some(DType::Bool), stmt, items)?;
                let a = self.expr(a, Some(own), stmt, items)?;
                let b = self.expr(b, Some(own), stmt, items)?;
                let axes = &(&c.axes | &a.axes) | &b.axes;
                point(Expr::Select(Box::new(c.expr), Box::new(a.expr), Box::new(b.expr)), axes)
            }
            ExprKind::Cast(_, a) => cast(self.expr(a, None, stmt, items)?, own),
            ExprKind::Reduce(op, a, axis) => {
                self.one_tile(&[*axis].into(), e.span)?;
                let a = self.expr(a, Some(own), stmt, items)?;
                let name = format!("{stmt}.{}", op.name());
                self.reduce(name, *op, a, *axis, e.span, items)
            }
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, want, stmt, items)?;
                let (product, over) = self.product(a, b, &acc, stmt, items)?;
                self.one_tile(&over, e.span)?;
                let init = literal(&acc.expr);
                let product = Binding { axes: &acc.axes | &product.axes, ..product };
                let name = format!("{stmt}.dot");
                let dot = self.reduction(name, RedOp::Add, product, &over, init, e.span, items);
                if init.is_some() { dot } else { combine(BinOp::Add, acc, dot) }
            }
        })
    }
}

fn combine(op: BinOp, a: Binding, b: Binding) -> Binding {
    Binding {
        axes: &a.axes | &b.axes,
        dtype: a.dtype,
        expr: Expr::Bin(op, Box::new(a.expr), Box::new(b.expr)),
    }
}

fn cast(value: Binding, to: DType) -> Binding {
    if value.dtype == to {
        return value;
    }
    let expr = match value.expr {
        Expr::Const(c, from) if to.is_float() => Expr::Const(f64::from(to.round(from.round(c as f32))), to),
        expr => Expr::Cast(to, Box::new(expr)),
    };
    Binding { expr, axes: value.axes, dtype: to }
}

fn literal(expr: &Expr) -> Option<f64> {
    if let Expr::Const(c, _) = expr { Some(*c) } else { None }
}

fn index_axes(index: &[Affine]) -> Axes {
    index.iter().flat_map(|i| i.terms.keys().copied()).collect()
}

fn is_var(e: &tile::Expr, var: VarId) -> bool {
    matches!(e.kind, ExprKind::Var(v) if v == var)
}

/// Uses of a variable: all of them, and those that are a direct operand of a dot.
#[derive(Default)]
struct Uses {
    all: usize,
    dots: usize,
}

fn assigned(var: VarId, stmts: &[tile::Stmt]) -> bool {
    stmts.iter().any(|s| match s {
        tile::Stmt::Assign { var: v, .. } => *v == var,
        tile::Stmt::For { body, .. } => assigned(var, body),
        _ => false,
    })
}

fn count_uses(var: VarId, stmts: &[tile::Stmt]) -> Uses {
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
                uses.dots += usize::from(is_var(a, var)) + usize::from(is_var(b, var));
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
