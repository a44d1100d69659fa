//! From a tile kernel to its unscheduled nest: one loop per axis, program axes outermost, a `let` per statement.
//!
//! - Each `let` of the kernel is a statement; a reduction or dot nested in it gets its own value, named
//!   `statement.op` (`e.max`). Literals, and loads that are used once or only by dots, stay inline.
//! - `x = x ⊕ f` and `x = dot(.., x)`, where `x` has no other use in the loops that it is carried through, is a plain
//!   reduction over the whole axes of these loops. Its initial value folds into the value table when it is a literal.
//! - Any other recurrence is state: its `let` stands around the loops that carry it, and each assignment is a `set`, or a
//!   `set` and a `red` for `x = dot(.., f(x))`. What such loops compute depends on the size of their tiles, so they are
//!   loops over tiles in the nest, too, and so is a loop that reduces over one of its tiles: see [`Recurrence`].
//! - The value of a reduction has the type it accumulates in ([`RedOp::accumulator`]); it is rounded where it is used.

mod expr;
mod recurrence;
mod uses;

use super::{
    Access, AccessId, Expr, Limits, Nest, Placement, Recurrence, Stmt, Value, ValueId,
    assemble::{Axes, Digits, Item, assemble, drop_unread, loops},
};
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    index::AxisId,
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{self, AxisKind, ElemType, ExprKind, VarId},
};
use expr::{cast, combine, literal, to_place};
use recurrence::{Found, Open};
use std::collections::BTreeMap;
use uses::{assigned, count_uses};

/// The unscheduled nest of an instantiated kernel: per point, or per tile where the kernel sees its tiles; program axes
/// outermost.
///
/// # Errors
/// A kernel that stores nothing, or whose limits are not written out.
pub fn initial(kernel: &tile::Kernel) -> Result<Nest, Diagnostic> {
    if let Some(axis) = tile::limits::unmasked(kernel) {
        let axis = &kernel.axes[usize::from(axis.0)];
        let message =
            format!("the limits of `{}` are not written out: `Kernel::apply_limits` does it", axis.name);
        return Err(Diagnostic::new(axis.span, message));
    }
    let mut found = Found::default();
    // That a loop is a recurrence shows inside of it, and then all of it is built anew.
    let (mut build, mut items) = loop {
        let mut build = Build::new(kernel, found.clone());
        let mut items = Vec::new();
        build.stmts(&kernel.body, &mut items)?;
        if build.found == found {
            break (build, items);
        }
        found = build.found;
    };
    drop_unread(&mut items);
    let digits = Digits { kernel, by_tile: found.axes.keys().copied().collect() };
    let program: Vec<AxisId> =
        axis_ids(kernel).filter(|a| build.axis(*a).kind == AxisKind::Program).collect();
    let bound: Axes = program.iter().copied().collect();
    let body = assemble(&digits, items, &bound)
        .ok_or_else(|| Diagnostic::new(SpanId::NONE, "the kernel stores nothing".to_string()))?;
    let body = loops(&digits, &program, body);
    let mut names = BTreeMap::new();
    for axis in axis_ids(kernel) {
        let name = &build.axis(axis).name;
        names.insert(name.clone(), digits.whole(axis));
        if digits.by_tile.contains(&axis) {
            names.insert(crate::nest::over_tiles(name), digits.tile_loop(axis));
            names.insert(crate::nest::in_tile(name), digits.inside(axis));
        }
    }
    let limits = build.limits()?;
    let recurrences = found.axes.into_iter().map(|(axis, span)| (axis, Recurrence { tile: None, span }));
    let mut nest = Nest {
        values: build.values,
        accesses: build.accesses,
        recurrences: recurrences.collect(),
        limits,
        names,
        ..Nest::bare(kernel.clone(), body)
    };
    nest.find_carried();
    Ok(nest)
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
    /// Recurrences: those that were known from the start, and those that showed since.
    found: Found,
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
    fn new(kernel: &'a tile::Kernel, found: Found) -> Self {
        let (values, accesses) = (Vec::new(), Vec::new());
        Build { kernel, values, accesses, env: BTreeMap::new(), open: Vec::new(), found }
    }

    fn axis(&self, axis: AxisId) -> &tile::Axis {
        &self.kernel.axes[usize::from(axis.0)]
    }

    /// The limits of axes, which what stands in the kernel masks by.
    fn limits(&mut self) -> Result<BTreeMap<AxisId, Limits>, Diagnostic> {
        let mut all = BTreeMap::new();
        for axis in axis_ids(self.kernel) {
            let of = &self.kernel.axes[usize::from(axis.0)].limits;
            let mut end = |end: &Option<tile::Expr>| {
                let end = end.as_ref().map(|end| self.expr(end, Some(DType::I32), "limit", &mut Vec::new()));
                end.map(|end| end.map(|end| end.expr)).transpose()
            };
            let limits = Limits { from: end(&of.from)?, to: end(&of.to)? };
            if !of.is_none() {
                all.insert(axis, limits);
            }
        }
        Ok(all)
    }

    fn stmts(&mut self, stmts: &'a [tile::Stmt], items: &mut Vec<Item>) -> Result<(), Diagnostic> {
        for (n, stmt) in stmts.iter().enumerate() {
            match stmt {
                tile::Stmt::Let { var, value } => self.bind(*var, value, &stmts[n + 1..], items)?,
                tile::Stmt::Assign { var, value, .. } => self.bind(*var, value, &stmts[n + 1..], items)?,
                tile::Stmt::For { axis, body, .. } => self.axis_loop(*axis, body, items)?,
                tile::Stmt::Store { tensor, index, when, combine, value, span } => {
                    let name = self.kernel.tensors[usize::from(tensor.0)].name.clone();
                    let want = dtype(self.kernel.tensors[usize::from(tensor.0)].elem);
                    let value = self.expr(value, Some(want), &name, items)?;
                    let when = match when {
                        Some(when) => Some(self.expr(when, None, &name, items)?),
                        None => None,
                    };
                    let guarded = when.as_ref().map(|when| when.axes.clone());
                    let combines = combine.map(|op| (op, value.axes.clone()));
                    let (access, by) =
                        self.place(*tensor, index, (guarded, combines), *span, &name, items)?;
                    let axes = self.accesses[usize::from(access.0)].axes();
                    let plain = by.is_empty() && combine.is_none();
                    let expr = match (plain, when) {
                        (true, None) => value.expr,
                        (_, when) => {
                            let when = when.map(|when| Box::new(when.expr));
                            Expr::Scatter { by, when, value: Box::new(value.expr) }
                        }
                    };
                    let leaf = Stmt::Put { access, expr };
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
            ExprKind::Load { .. } => {
                let uses = count_uses(var, after);
                let stays = !assigned(var, after) && !self.changes(value);
                stays && (uses.all <= 1 || uses.all == uses.dots)
            }
            _ => false,
        };
        let info = &self.kernel.vars[usize::from(var.0)];
        let name = self.fresh(&info.name);
        let span = value.span;
        let binding = match &value.kind {
            _ if inline => self.expr(value, want, &name, items)?,
            ExprKind::Reduce(op, x, axis) => {
                self.by_tile(&[*axis].into(), span);
                let x = self.expr(x, want, &name, items)?;
                self.reduce(name, *op, x, *axis, span, items)
            }
            ExprKind::Scan(op, x, axis) => {
                self.by_tile(&[*axis].into(), span);
                let x = self.expr(x, want, &name, items)?;
                self.scan(name, *op, x, *axis, span, items)
            }
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, want, &name, items)?;
                let (product, over) = self.product(a, b, &acc, &name, items)?;
                self.by_tile(&over, span);
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

    /// The scan of `part` along an axis, of the type of `part`.
    fn scan(
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
        let axes = part.axes.clone();
        let id = self.new_value(name, &axes, part.dtype, None, None, span);
        self.values[usize::from(id.0)].scan = Some((op, axis));
        let leaf = Stmt::Scan { value: id, expr: part.expr };
        items.push(Item::Compute { value: id, axes: axes.clone(), over: Axes::new(), leaf });
        cast(Binding { expr: Expr::Get(id), axes, dtype: part.dtype }, dtype)
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
            scan: None,
            carried: false,
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

    /// An access, and the values that are added to it.
    fn place(
        &mut self,
        tensor: tile::TensorId,
        index: &[tile::Index],
        (guarded, combines): (Option<Axes>, Option<(RedOp, Axes)>),
        span: SpanId,
        stmt: &str,
        items: &mut Vec<Item>,
    ) -> Result<(AccessId, Vec<Expr>), Diagnostic> {
        let (mut by, mut values) = (BTreeMap::new(), Vec::new());
        for (dim, entry) in index.iter().enumerate() {
            if let Some(value) = &entry.value {
                let value = to_place(self.expr(value, Some(DType::I32), stmt, items)?);
                by.insert(dim, value.axes);
                values.push(value.expr);
            }
        }
        let index = index.iter().map(|entry| entry.affine.clone()).collect();
        let access = Access { tensor, index, by, gathered: BTreeMap::new(), guarded, combines, span };
        let same = |a: &Access| Access { span, ..a.clone() } == access;
        let id = self.accesses.iter().position(same).unwrap_or_else(|| {
            self.accesses.push(access);
            self.accesses.len() - 1
        });
        Ok((AccessId(id as u16), values))
    }

    /// Whether what an expression reads may be stored or assigned after it: a tensor that the kernel stores to, a variable that
    /// loops carry.
    fn changes(&self, value: &tile::Expr) -> bool {
        value.any(&|e| match &e.kind {
            ExprKind::Load { tensor, .. } => self.kernel.tensors[usize::from(tensor.0)].mutable,
            ExprKind::Var(var) => self.kernel.vars[usize::from(var.0)].mutable,
            _ => false,
        })
    }
}
