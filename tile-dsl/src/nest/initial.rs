//! From a tile kernel to its unscheduled nest: one loop per axis, program axes outermost, a `let` per statement.
//!
//! - Each `let` of the kernel is a statement; a reduction or dot nested in it gets its own value, named
//!   `statement.op` (`e.max`). Literals, and loads that are used once or only by dots, stay inline.
//! - `x = x ⊕ f` and `x = dot(.., x)`, where `x` has no other use in the loop, is a plain reduction over
//!   the whole axis of the loop. Its initial value folds into the value table when it is a literal.

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
    let mut build = Build { kernel, values: Vec::new(), accesses: Vec::new(), env: BTreeMap::new() };
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

impl Build<'_> {
    fn axis(&self, axis: AxisId) -> &tile::Axis {
        &self.kernel.axes[usize::from(axis.0)]
    }

    fn stmts(&mut self, stmts: &[tile::Stmt], items: &mut Vec<Item>) -> Result<(), Diagnostic> {
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
                let x = self.expr(x, want, &name, items)?;
                self.reduction(name, *op, x, &[*axis].into(), None, span, items)
            }
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, want, &name, items)?;
                let (product, over) = self.product(a, b, &acc, &name, items)?;
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
        body: &[tile::Stmt],
        span: SpanId,
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let declared: BTreeSet<VarId> = body
            .iter()
            .filter_map(|s| if let tile::Stmt::Let { var, .. } = s { Some(*var) } else { None })
            .collect();
        let carried = |var: VarId| !declared.contains(&var);
        let (mut inner, mut values, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for (n, stmt) in body.iter().enumerate() {
            let tile::Stmt::Assign { var, value, span: at } = stmt else {
                let rest = &body[n..];
                self.stmts_one(stmt, rest, &mut inner)?;
                continue;
            };
            if !carried(*var) {
                self.bind(*var, value, &body[n + 1..], &mut inner)?;
                continue;
            }
            let name = self.kernel.vars[usize::from(var.0)].name.clone();
            let refuse = |build: &Self, why: &str| {
                Diagnostic::new(*at, format!(
                    "`{name}` is carried from one tile of `{}` to the next and {why}: only reductions of the form \
                     `x = x + f`, `x = max(x, f)`, `x = min(x, f)` and `x = dot(.., x)` are supported in a loop over tiles",
                    build.axis(axis).name
                ))
                .note(span, "in this loop")
            };
            let start =
                self.env.get(var).cloned().ok_or_else(|| refuse(self, "has no value before the loop"))?;
            if count_uses(*var, body).all != 1 {
                return Err(refuse(self, "is used a second time in the loop"));
            }
            let (op, part, over) = match &value.kind {
                ExprKind::Dot(a, b, acc) if is_var(acc, *var) => {
                    let (product, over) = self.product(a, b, &start, &name, &mut inner)?;
                    (RedOp::Add, product, over)
                }
                ExprKind::Bin(op, x, y) => {
                    let (BinOp::Add | BinOp::Max | BinOp::Min) = op else {
                        return Err(refuse(self, "is updated by another operator"));
                    };
                    let red = match op {
                        BinOp::Max => RedOp::Max,
                        BinOp::Min => RedOp::Min,
                        _ => RedOp::Add,
                    };
                    let part = match (is_var(x, *var), is_var(y, *var)) {
                        (true, _) => y,
                        (_, true) => x,
                        _ => return Err(refuse(self, "is not updated by one operator")),
                    };
                    // `acc + sum(f, axis)` over the tiles of the axis is the sum of f over the whole axis.
                    let part = match &part.kind {
                        ExprKind::Reduce(inner, f, a) if *inner == red && *a == axis => f,
                        _ => part,
                    };
                    let part = self.expr(part, Some(start.dtype), &name, &mut inner)?;
                    let over = &part.axes - &start.axes;
                    (red, part, over)
                }
                _ => return Err(refuse(self, "is not updated by a reduction")),
            };
            if !over.contains(&axis) || over.len() > 1 && !matches!(value.kind, ExprKind::Dot(..)) {
                return Err(refuse(self, "gains the same amount however many points a tile has"));
            }
            let init = literal(&start.expr);
            let unique = self.fresh(&name);
            let red_name = if init.is_some() { unique.clone() } else { format!("{unique}.{}", op.name()) };
            let id = self.new_value(red_name, &start.axes, start.dtype, Some(op), init, *at);
            let leaf = Stmt::Red { value: id, op, expr: part.expr };
            inner.push(Item::Effect { axes: start.axes.clone(), over: &over - &[axis].into(), leaf });
            values.push(id);
            results.push((*var, unique, op, init.is_none(), start, id, *at));
        }
        items.push(Item::Loop { axis, values, body: inner });
        for (var, name, op, define, start, id, at) in results {
            let total = Binding { expr: Expr::Get(id), ..start.clone() };
            let total = if define {
                self.define(name, combine(op.combine(), start, total), at, items)
            } else {
                total
            };
            self.env.insert(var, total);
        }
        Ok(())
    }

    fn stmts_one(
        &mut self,
        stmt: &tile::Stmt,
        from: &[tile::Stmt],
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

    /// `name`, or `name#2`, `name#3`, .. if it is taken.
    fn fresh(&self, name: &str) -> String {
        let taken = |n: &str| self.values.iter().any(|v| v.name == n);
        if !taken(name) {
            return name.to_string();
        }
        (2..).map(|n| format!("{name}#{n}")).find(|n| !taken(n)).expect("unbounded")
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
                let a = self.expr(a, Some(own), stmt, items)?;
                let name = format!("{stmt}.{}", op.name());
                self.reduction(name, *op, a, &[*axis].into(), None, e.span, items)
            }
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, want, stmt, items)?;
                let (product, over) = self.product(a, b, &acc, stmt, items)?;
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
        Expr::Const(c, _) if to.is_float() => Expr::Const(f64::from(to.round(c as f32)), to),
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
