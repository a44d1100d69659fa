//! Loops over tiles: what they accumulate, and what they carry from tile to tile.

use super::{
    Axes, Binding, Build, Item,
    expr::{cast, combine, literal},
    uses::{count_uses, is_var},
};
use crate::{
    diagnostic::Diagnostic,
    dtype::DType,
    index::AxisId,
    nest::{Expr, Stmt, ValueId},
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{self, ExprKind, VarId, added, sums},
};
use std::collections::{BTreeMap, BTreeSet};

/// Loops whose steps see a tile as a whole, and what they carry.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Found {
    /// Their axes, each with the statement that depends on the tile.
    pub axes: BTreeMap<AxisId, SpanId>,
    /// Variables that are state, each with the outermost loop that carries it.
    states: BTreeSet<(VarId, AxisId)>,
}

/// A loop over tiles around the current statement.
pub(super) struct Open<'a> {
    pub axis: AxisId,
    body: &'a [tile::Stmt],
    /// Variables that each step starts anew.
    declared: BTreeSet<VarId>,
    /// Reductions and states that start before the loop and end with it.
    values: Vec<ValueId>,
    carried: Vec<Carried>,
}

/// A variable that a loop over tiles updates.
struct Carried {
    var: VarId,
    name: String,
    /// A reduction whose first element joins after the loop: its operator, and that element.
    joins: Option<(RedOp, Binding)>,
    /// Element type of the variable.
    dtype: DType,
    /// What the loops hold in the end.
    total: Binding,
    at: SpanId,
}

impl<'a> Build<'a> {
    /// `for axis in tiles(..) { body }`.
    pub(super) fn axis_loop(
        &mut self,
        axis: AxisId,
        body: &'a [tile::Stmt],
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let declared = body
            .iter()
            .filter_map(|s| if let tile::Stmt::Let { var, .. } = s { Some(*var) } else { None })
            .collect();
        self.open.push(Open { axis, body, declared, values: Vec::new(), carried: Vec::new() });
        let start = self.start_states(axis, body);
        let mut inner = Vec::new();
        for (n, stmt) in body.iter().enumerate() {
            match stmt {
                tile::Stmt::Assign { var, value, span } => self.assign(*var, value, *span, &mut inner)?,
                _ => self.stmts_one(stmt, &body[n..], &mut inner)?,
            }
        }
        let Open { values, carried, .. } = self.open.pop().expect("pushed above");
        items.push(Item::Loop { axis, values, start, body: inner });
        for Carried { var, name, joins, dtype, total, at } in carried {
            let total = match joins {
                Some((op, start)) => {
                    let sum = combine(op.combine(), cast(start, total.dtype), total);
                    self.define(name, cast(sum, dtype), at, items)
                }
                None => cast(total, dtype),
            };
            self.env.insert(var, total);
        }
        Ok(())
    }

    /// The outermost of the open loops that a variable is carried through: as many loops are around its declaration.
    fn carried_through(&self, var: VarId) -> usize {
        self.open.iter().rposition(|o| o.declared.contains(&var)).map_or(0, |n| n + 1)
    }

    /// State that the loop just opened is the outermost to carry starts before it.
    fn start_states(&mut self, axis: AxisId, body: &[tile::Stmt]) -> Vec<Item> {
        let mut items = Vec::new();
        let states: Vec<VarId> =
            self.found.states.iter().filter(|(_, of)| *of == axis).map(|(var, _)| *var).collect();
        let sums = sums(body);
        for var in states {
            // Another loop over the same axis may carry it.
            let here = self.carried_through(var) + 1 == self.open.len() && super::assigned(var, body);
            let Some(start) = self.env.get(&var).filter(|_| here).cloned() else { continue };
            let Binding { axes, dtype, .. } = start.clone();
            // A sum goes on in the type that it accumulates in, as plain ones do.
            let wide = if sums.contains(&var) { RedOp::Add.accumulator(dtype) } else { dtype };
            let info = &self.kernel.vars[usize::from(var.0)];
            let (name, at) = (info.name.clone(), info.span);
            let init = literal(&start.expr).map(|c| dtype.round_f64(c));
            let id = self.new_value(name.clone(), &axes, wide, None, init, at);
            if init.is_none() {
                let leaf = Stmt::Set { value: id, expr: cast(start, wide).expr };
                items.push(Item::Effect { axes: axes.clone(), over: Axes::new(), leaf });
            }
            let total = Binding { expr: Expr::Get(id), axes, dtype: wide };
            self.env.insert(var, total.clone());
            let open = self.open.last_mut().expect("a loop was opened");
            open.values.push(id);
            open.carried.push(Carried { var, name, joins: None, dtype, total, at });
        }
        items
    }

    /// `var = value` in loops that `var` is carried through.
    fn assign(
        &mut self,
        var: VarId,
        value: &tile::Expr,
        at: SpanId,
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let from = self.carried_through(var);
        let state = (var, self.open[from].axis);
        if self.found.states.contains(&state) {
            // One that showed to be state just now starts when all is built anew.
            return match self.open[from].carried.iter().any(|c| c.var == var) {
                true => self.update(var, value, at, items),
                false => Ok(()),
            };
        }
        if !self.accumulate(var, value, at, items)? {
            self.found.states.insert(state);
            for open in &self.open[from..] {
                self.found.axes.entry(open.axis).or_insert(at);
            }
        }
        Ok(())
    }

    /// `var = value` as a reduction over the axes of the loops that `var` is carried through; `false` if it is none.
    fn accumulate(
        &mut self,
        var: VarId,
        value: &tile::Expr,
        at: SpanId,
        items: &mut Vec<Item>,
    ) -> Result<bool, Diagnostic> {
        let from = self.carried_through(var);
        let name = self.kernel.vars[usize::from(var.0)].name.clone();
        let loops: Axes = self.open[from..].iter().map(|o| o.axis).collect();
        let Some(start) = self.env.get(&var).cloned() else { return Ok(false) };
        if count_uses(var, self.open[from].body).all != 1 {
            return Ok(false);
        }
        let (op, part, over) = match &value.kind {
            ExprKind::Dot(a, b, acc) if is_var(acc, var) => {
                let (product, over) = self.product(a, b, &start, &name, items)?;
                (RedOp::Add, product, over)
            }
            ExprKind::Bin(op, x, y) => {
                let Some(red) = RedOp::combined_by(*op) else { return Ok(false) };
                let mut part = match (is_var(x, var), is_var(y, var)) {
                    (true, _) => y,
                    (_, true) => x,
                    _ => return Ok(false),
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
            _ => return Ok(false),
        };
        // Otherwise it gains the same amount however many points a tile has.
        if !loops.is_subset(&over) || over != loops && !matches!(value.kind, ExprKind::Dot(..)) {
            return Ok(false);
        }
        let init = literal(&start.expr).map(|c| start.dtype.round_f64(c));
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
        let dtype = start.dtype;
        let joins = init.is_none().then_some((op, start));
        self.open[from].values.push(id);
        self.open[from].carried.push(Carried { var, name: unique, joins, dtype, total, at });
        Ok(true)
    }

    /// `var = value`, where `var` is state.
    fn update(
        &mut self,
        var: VarId,
        value: &tile::Expr,
        at: SpanId,
        items: &mut Vec<Item>,
    ) -> Result<(), Diagnostic> {
        let name = self.kernel.vars[usize::from(var.0)].name.clone();
        let dtype = self.var_dtype(var);
        let state = self.env[&var].clone();
        let Expr::Get(id) = state.expr else { unreachable!("state is a value") };
        let set = |expr: Expr| {
            let leaf = Stmt::Set { value: id, expr };
            Item::Effect { axes: state.axes.clone(), over: Axes::new(), leaf }
        };
        match &value.kind {
            ExprKind::Dot(a, b, acc) => {
                let acc = self.expr(acc, Some(dtype), &name, items)?;
                let (product, over) = self.product(a, b, &acc, &name, items)?;
                self.by_tile(&over, at);
                let loops: Axes = self.open[self.carried_through(var)..].iter().map(|o| o.axis).collect();
                // The products go straight to the state, if they do not read it and there are some of each tile.
                if loops.is_subset(&over) && !product.expr.values().contains(&id) {
                    if acc.expr != Expr::Get(id) {
                        items.push(set(acc.expr));
                    }
                    self.values[usize::from(id.0)].reduction = Some(RedOp::Add);
                    let leaf = Stmt::Red { value: id, op: RedOp::Add, expr: product.expr };
                    items.push(Item::Effect { axes: state.axes.clone(), over, leaf });
                } else {
                    let dot = format!("{name}.dot");
                    let dot = self.reduction(dot, RedOp::Add, product, &over, None, at, items);
                    items.push(set(combine(BinOp::Add, acc, dot).expr));
                }
            }
            // A sum that is rounded after the loop.
            _ if state.dtype != dtype => {
                let part = added(var, value).expect("a sum that goes on");
                let part = match &part.kind {
                    ExprKind::Reduce(RedOp::Add, x, axis) => {
                        self.by_tile(&[*axis].into(), part.span);
                        let x = self.expr(x, Some(dtype), &name, items)?;
                        let sum = format!("{name}.sum");
                        let x = cast(x, state.dtype);
                        self.reduction(sum, RedOp::Add, x, &[*axis].into(), None, part.span, items)
                    }
                    _ => cast(self.expr(part, Some(dtype), &name, items)?, state.dtype),
                };
                items.push(set(combine(BinOp::Add, state.clone(), part).expr));
            }
            _ => {
                let value = self.expr(value, Some(dtype), &name, items)?;
                items.push(set(value.expr));
            }
        }
        Ok(())
    }

    /// Element type of a variable that an open loop carries.
    fn var_dtype(&self, var: VarId) -> DType {
        let mut carried = self.open.iter().flat_map(|o| &o.carried);
        carried.find(|c| c.var == var).map_or(DType::F32, |c| c.dtype)
    }

    /// A reduction over the axis of an open loop that is no step of an accumulation sees one tile of it.
    pub(super) fn by_tile(&mut self, over: &Axes, at: SpanId) {
        for open in self.open.iter().filter(|o| over.contains(&o.axis)) {
            self.found.axes.entry(open.axis).or_insert(at);
        }
    }
}
