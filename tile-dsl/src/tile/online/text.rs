//! Writes the kernel with the loop.

mod deviation;
mod steps;

use super::{
    Fold, Member,
    axes::{self, mentions},
    is_var,
    known::Known,
    named::fresh,
    place::{Place, reads},
};
use crate::{
    dtype::DType,
    index::{AxisId, Extent},
    op::{BinOp, CmpOp, RedOp},
    span::SpanId,
    tile::{
        Axis, AxisKind, ElemType, Expr, ExprKind, Kernel, Limits, Stmt, VarId, expressions_mut,
        make::{bin, cast, cmp, constant, expr, neutral, select, var},
        statements,
    },
};
use deviation::Center;
use std::collections::{BTreeMap, BTreeSet};

/// The kernel with the loop.
pub(super) fn write(known: &Known<'_>, fold: &Fold, place: &Place) -> Kernel {
    let mut writer = Writer {
        known,
        fold,
        place,
        kernel: known.kernel.clone(),
        carried: BTreeMap::new(),
        next: BTreeMap::new(),
        frames: BTreeMap::new(),
        centers: BTreeMap::new(),
        inside: Names::new(),
        late: Names::new(),
    };
    writer.rename();
    let before = writer.before();
    let starts: Vec<Stmt> = fold.members.iter().flat_map(|member| writer.starts(member)).collect();
    let mut after = writer.totals();
    after.extend(writer.behind());
    writer.inline(&mut after);
    let mut steps = writer.steps();
    let outside: Vec<&Stmt> = before.iter().chain(&after).collect();
    let axis = writer.axis(&outside);
    axes::renamed(&mut steps, &|other| if other == known.axis { axis } else { other });
    let span = known.totals[fold.members[0].total].span;
    let steps = Stmt::For { axis, body: steps, span };
    writer.kernel.body = before.into_iter().chain(starts).chain([steps]).chain(after).collect();
    drop_unbound(&mut writer.kernel);
    writer.kernel
}

/// Leaves out variables that nothing binds.
fn drop_unbound(kernel: &mut Kernel) {
    let mut bound = BTreeSet::new();
    statements(&kernel.body, &mut |stmt| {
        if let Stmt::Let { var, .. } = stmt {
            bound.insert(*var);
        }
    });
    let vars = std::mem::take(&mut kernel.vars);
    kernel.vars = bound.iter().map(|var| vars[usize::from(var.0)].clone()).collect();
    let ids: Names = bound.into_iter().zip((0..).map(VarId)).collect();
    expressions_mut(&mut kernel.body, &mut |e| {
        if let ExprKind::Var(var) = &mut e.kind {
            *var = ids[var];
        }
        true
    });
    for stmt in &mut kernel.body {
        stmt.each_mut(&mut |stmt| {
            if let Stmt::Let { var, .. } | Stmt::Assign { var, .. } = stmt {
                *var = ids[var];
            }
        });
    }
}

/// New variables for old ones.
type Names = BTreeMap<VarId, VarId>;

struct Writer<'k> {
    known: &'k Known<'k>,
    fold: &'k Fold,
    place: &'k Place,
    kernel: Kernel,
    /// What the loop carries, by total.
    carried: BTreeMap<usize, VarId>,
    /// The maximum with that of the tile, by total.
    next: BTreeMap<usize, VarId>,
    /// What the maximum is taken to be, by total.
    frames: BTreeMap<usize, VarId>,
    /// What it carries besides, of a sum of squared deviations.
    centers: BTreeMap<usize, Center>,
    /// Variables of the loop for those that are bound before or behind it, too.
    inside: Names,
    /// Variables behind the loop for those that are bound before or in it, too.
    late: Names,
}

impl Writer<'_> {
    /// Variables for values that are computed in several places: in the loop they keep their names, if no other place needs them.
    fn rename(&mut self) {
        let Place { early, inside, late, rest, .. } = self.place;
        for (at, stmt) in self.known.kernel.body.iter().enumerate() {
            let Stmt::Let { var, value } = stmt else { continue };
            let name = self.known.name(*var).to_string();
            if inside.contains(&at) && (early.contains(&at) || rest.contains(&at)) {
                self.inside.insert(*var, fresh(&mut self.kernel, &name, false, value.span));
            }
            if late.contains(&at) && (early.contains(&at) || inside.contains(&at)) {
                self.late.insert(*var, fresh(&mut self.kernel, &name, false, value.span));
            }
        }
    }

    /// What stands before the loop.
    fn before(&self) -> Vec<Stmt> {
        let body = &self.known.kernel.body;
        let stays = |at: &usize| match *at < self.place.first {
            true => !Place::moves(self.known, *at) || self.place.early.contains(at),
            false => {
                let Stmt::Let { var, .. } = &body[*at] else { return false };
                let moves = Place::moves(self.known, *at) || self.place.rest.contains(at);
                self.known.total(*var).is_none() && !moves
            }
        };
        (0..=self.place.last).filter(stays).map(|at| body[at].clone()).collect()
    }

    /// The variables that the loop carries for a member start.
    fn starts(&mut self, member: &Member) -> Vec<Stmt> {
        let mut starts = vec![self.start(member)];
        if member.deviates.is_some() {
            starts.extend(self.center(member));
        }
        starts
    }

    /// The variable that the loop carries for a member, and its start.
    fn start(&mut self, member: &Member) -> Stmt {
        let total = &self.known.totals[member.total];
        let elem = ElemType::Fixed(self.accumulator(member));
        let axes = self.axes_of(member);
        let ExprKind::Const { value, .. } = neutral(total.op, elem, total.span).kind else {
            unreachable!("neutral elements are literals")
        };
        let own = usize::from(total.var.0);
        let carried = match self.is_final(member) {
            true => {
                self.kernel.vars[own].mutable = true;
                total.var
            }
            // What the rest of the kernel reads is made of it, and bound again.
            false => {
                let name = self.known.name(total.var).to_string();
                let carried = fresh(&mut self.kernel, &name, true, total.span);
                let vars = &mut self.kernel.vars;
                vars[own].name = std::mem::replace(&mut vars[usize::from(carried.0)].name, name);
                carried
            }
        };
        self.carried.insert(member.total, carried);
        Stmt::Let { var: carried, value: expr(ExprKind::Full { value, elem, axes }, total.span) }
    }

    /// The axes of a member without what leaves it.
    fn axes_of(&self, member: &Member) -> Vec<AxisId> {
        let axes = match &member.value.kind {
            ExprKind::Reduce(_, x, axis) => {
                let mut axes = self.known.axes_with(&self.fold.inside, x);
                axes.remove(axis);
                axes.extend(self.known.kernel.limiting_axes(*axis));
                axes
            }
            _ => self.known.axes(&member.value),
        };
        axes.into_iter().collect()
    }

    /// The type in which the loop carries a member.
    fn accumulator(&self, member: &Member) -> DType {
        let own = self.known.type_of_total(member.total).dtype();
        match &member.value.kind {
            ExprKind::Dot(..) => own,
            _ => self.known.totals[member.total].op.accumulator(own),
        }
    }

    /// Whether what the loop carries is what the rest of the kernel reads.
    fn is_final(&self, member: &Member) -> bool {
        let own = self.known.type_of_total(member.total).dtype();
        let kept = member.powers.is_empty() && member.outside.is_empty() && member.deviates.is_none();
        kept && self.accumulator(member) == own
    }

    /// What the text has for members that nothing leaves and whose loop carries something else.
    fn totals(&self) -> Vec<Stmt> {
        let kept = |member: &&Member| {
            !self.is_final(member) && member.outside.is_empty() && member.deviates.is_none()
        };
        let total = |member: &Member| Stmt::Let {
            var: self.known.totals[member.total].var,
            value: self.whole(member, self.has_points(self.known.totals[member.total].span)),
        };
        self.fold.members.iter().filter(kept).map(total).collect()
    }

    /// What the terms of a member add up to, in the text's type: no number for a row without a finite maximum. `some`: that there are
    /// terms.
    fn whole(&self, member: &Member, some: Option<Expr>) -> Expr {
        let known = self.known;
        let span = known.totals[member.total].span;
        let (own, dtype) = (known.type_of_total(member.total).elem, self.accumulator(member));
        let elem = ElemType::Fixed(dtype);
        let mut value = var(self.carried[&member.total], span);
        let maxima: BTreeSet<usize> = member.powers.iter().map(|power| power.of).collect();
        for of in maxima {
            let (maximum, of_type) = (&known.totals[of], known.type_of_total(of).elem);
            let least = cmp(CmpOp::Eq, var(maximum.var, span), neutral(maximum.op, of_type, span));
            let unbounded = match some.clone() {
                Some(some) => bin(BinOp::And, least, some),
                None => least,
            };
            let none = bin(BinOp::Sub, var(maximum.var, span), var(maximum.var, span));
            value = select(unbounded, if elem == of_type { none } else { cast(elem, none) }, value);
        }
        if own == elem { value } else { cast(own, value) }
    }

    /// That the axis has a point, for each point of the axes of its limits; nothing where the text says so.
    fn has_points(&self, span: SpanId) -> Option<Expr> {
        let i32_type = ElemType::Fixed(DType::I32);
        let extent = &self.known.kernel.axes[usize::from(self.known.axis.0)].extent;
        let Limits { from, to } = self.limits();
        let number = |n: i64| constant(n as f64, i32_type, span);
        let zero = || number(0);
        match (from, to) {
            (None, None) if extent.as_constant().is_some_and(|n| n > 0) => None,
            (None, None) => Some(cmp(CmpOp::Lt, zero(), size(extent, span))),
            (from, to) => {
                let from = from.map_or_else(zero, |from| bin(BinOp::Max, from, zero()));
                let end = size(extent, span);
                let end = match to {
                    Some(to) => bin(BinOp::Min, to, end),
                    None => end,
                };
                Some(cmp(CmpOp::Lt, from, end))
            }
        }
    }

    /// What stands behind the loop: what the reductions and what is between them give the rest of the kernel, values along the axis
    /// again, and the rest.
    fn behind(&self) -> Vec<Stmt> {
        let (known, place) = (self.known, self.place);
        let mut out = Vec::new();
        for (at, stmt) in known.kernel.body.iter().enumerate() {
            let mut stmt = stmt.clone();
            if at <= place.last {
                let Stmt::Let { var: bound, .. } = &mut stmt else { continue };
                let member =
                    known.total(*bound).and_then(|t| self.fold.members.iter().find(|m| m.total == t));
                if let Some(member) = member {
                    out.extend(self.left(member));
                    continue;
                }
                if place.late.contains(&at) {
                    *bound = *self.late.get(bound).unwrap_or(bound);
                } else if !place.rest.contains(&at) {
                    continue;
                }
            }
            expressions_mut(std::slice::from_mut(&mut stmt), &mut |e| {
                if let ExprKind::Var(read) = &mut e.kind {
                    *read = *self.late.get(read).unwrap_or(read);
                }
                true
            });
            out.push(stmt);
        }
        out
    }

    /// A member with what has left it.
    fn left(&self, member: &Member) -> Option<Stmt> {
        if let Some(from) = &member.deviates {
            return Some(self.squares(member, from));
        }
        if member.outside.is_empty() {
            return None;
        }
        let own = self.known.type_of_total(member.total).elem;
        let span = self.known.totals[member.total].span;
        let mut value = self.whole(member, None);
        for outside in &member.outside {
            let by = ElemType::Fixed(self.known.dtype(&outside.value));
            // In a type that has the numbers of both.
            let wide = if by == own { own } else { ElemType::Fixed(DType::F32) };
            let of_type = |x: Expr, from: ElemType| if wide == from { x } else { cast(wide, x) };
            let product = bin(outside.op, of_type(value, own), of_type(outside.value.clone(), by));
            value = if wide == own { product } else { cast(own, product) };
        }
        // Of no terms nothing has left.
        if let Some(some) = self.has_points(span) {
            value = select(some, value, neutral(RedOp::Add, own, span));
        }
        Some(Stmt::Let { var: self.known.totals[member.total].var, value })
    }

    /// Puts values along the axis that one statement behind the loop reads, and that nothing changes, into that statement.
    fn inline(&self, after: &mut Vec<Stmt>) {
        let late: Vec<VarId> = self
            .place
            .late
            .iter()
            .filter_map(|at| match &self.known.kernel.body[*at] {
                Stmt::Let { var, .. } => Some(*self.late.get(var).unwrap_or(var)),
                _ => None,
            })
            .collect();
        for copy in late {
            let Some(at) = after.iter().position(|s| matches!(s, Stmt::Let { var, .. } if *var == copy))
            else {
                continue;
            };
            let Stmt::Let { value, .. } = after[at].clone() else { continue };
            let changes = value.any(&|e| match &e.kind {
                ExprKind::Load { tensor, .. } => self.kernel.tensors[usize::from(tensor.0)].mutable,
                ExprKind::Var(read) => {
                    let var = &self.known.kernel.vars.get(usize::from(read.0));
                    var.is_some_and(|var| var.mutable)
                }
                _ => false,
            });
            let mut users = Vec::new();
            for (n, stmt) in after.iter().enumerate() {
                let mut count = 0;
                stmt.each(&mut |inner| {
                    count += inner.operands().iter().map(|value| reads(value, copy)).sum::<usize>();
                });
                users.extend(std::iter::repeat_n(n, count));
            }
            let [user] = users[..] else { continue };
            let reduced = after[user].operands().into_iter().any(|value| in_reduction(value, copy));
            if changes || reduced || matches!(after[user], Stmt::For { .. }) {
                continue;
            }
            expressions_mut(std::slice::from_mut(&mut after[user]), &mut |e| {
                if is_var(e, copy) {
                    *e = value.clone();
                    return false;
                }
                true
            });
            after.remove(at);
        }
    }

    /// The axis of the loop. What is left of the axis outside of it goes by another name.
    fn axis(&mut self, outside: &[&Stmt]) -> AxisId {
        let own = self.known.axis;
        let in_limits = (0..self.kernel.axes.len())
            .any(|n| self.known.kernel.limiting_axes(AxisId(n as u16)).contains(&own));
        if !in_limits && !outside.iter().any(|stmt| mentions(own, stmt)) {
            self.kernel.axes[usize::from(own.0)].kind = AxisKind::Tiles;
            return own;
        }
        let old: Axis = self.kernel.axes[usize::from(own.0)].clone();
        let taken = |name: &String| self.kernel.axes.iter().any(|axis| axis.name == *name);
        let second = (2..).map(|n| format!("{}{n}", old.name)).find(|name| !taken(name)).expect("unbounded");
        self.kernel.axes[usize::from(own.0)].name = second;
        let axis = AxisId(self.kernel.axes.len() as u16);
        self.kernel.axes.push(Axis { kind: AxisKind::Tiles, ..old });
        axis
    }
}

/// Whether a reduction inside of an expression reads a variable.
fn in_reduction(value: &Expr, var: VarId) -> bool {
    value.any(&|e| matches!(e.kind, ExprKind::Reduce(..) | ExprKind::Dot(..)) && reads(e, var) > 0)
}

/// The number of points of an axis.
fn size(extent: &Extent, span: SpanId) -> Expr {
    let i32_type = ElemType::Fixed(DType::I32);
    let number = |n: i64| constant(n as f64, i32_type, span);
    let dims = extent.dims.iter().map(|(name, times)| {
        let dim = expr(ExprKind::Dim(name.clone()), span);
        if *times == 1 { dim } else { bin(BinOp::Mul, dim, number(*times)) }
    });
    let constant = (extent.constant != 0).then(|| number(extent.constant));
    dims.chain(constant).reduce(|a, b| bin(BinOp::Add, a, b)).unwrap_or_else(|| number(0))
}
