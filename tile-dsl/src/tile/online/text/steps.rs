//! One step of the loop.

use super::Writer;
use crate::{
    dtype::DType,
    op::{BinOp, CmpOp, UnOp},
    tile::{
        ElemType, Expr, ExprKind, Kernel, Limits, Stmt, VarId, limits,
        make::{bin, cast, cmp, constant, expr, neutral, select, var},
        online::{Member, choice::Choice, named::fresh, weight::Power},
    },
};
use std::collections::{BTreeMap, BTreeSet};

impl Writer<'_> {
    /// One step of the loop.
    pub(super) fn steps(&mut self) -> Vec<Stmt> {
        let (known, fold) = (self.known, self.fold);
        let (mut body, mut last, mut done) = (Vec::new(), Vec::new(), BTreeSet::new());
        let (framed, summed): (Vec<&Member>, Vec<&Member>) =
            fold.members.iter().partition(|member| fold.followed.contains(&member.total));
        for member in framed {
            self.values(&member.value, &mut done, &mut body);
            last.push(self.frame(member, &mut body));
        }
        let mut scales: Vec<(Power, DType, VarId)> = Vec::new();
        for member in summed {
            self.values(&member.value, &mut done, &mut body);
            if member.deviates.is_some() {
                self.deviate(member, &mut body);
                continue;
            }
            let mut sum = var(self.carried[&member.total], known.totals[member.total].span);
            for power in &member.powers {
                let scale = self.scale(power, self.accumulator(member), &mut scales, &mut body);
                sum = bin(BinOp::Mul, sum, scale);
            }
            if let Some(Choice { of, nan }) = member.chosen {
                let (span, elem) = (sum.span, ElemType::Fixed(self.accumulator(member)));
                let [old, next] = [self.carried[&of], self.next[&of]].map(|id| var(id, span));
                let mut same = cmp(CmpOp::Eq, old.clone(), next);
                if nan {
                    let number = Box::new(cmp(CmpOp::Eq, old.clone(), old));
                    same = bin(BinOp::Or, same, expr(ExprKind::Un(UnOp::Not, number), span));
                }
                sum = select(same, sum, neutral(known.totals[member.total].op, elem, span));
            }
            body.push(self.update(member, sum));
        }
        body.extend(last);
        body
    }

    /// The values that a step reads, each before its readers.
    fn values(&self, value: &Expr, done: &mut BTreeSet<usize>, body: &mut Vec<Stmt>) {
        let mut read = Vec::new();
        value.each(&mut |e| {
            if let ExprKind::Var(var) = &e.kind {
                read.push(*var);
            }
        });
        for name in read {
            let Some((at, bound)) = self.known.lets.get(&name) else { continue };
            if !self.place.inside.contains(at) || !done.insert(*at) {
                continue;
            }
            let value = self.fold.inside.get(&name).unwrap_or(bound);
            self.values(value, done, body);
            let own = *self.inside.get(&name).unwrap_or(&name);
            body.push(Stmt::Let { var: own, value: self.framed(value) });
        }
    }

    /// An expression of the loop: powers are of frames, and elements are compared with the maximum itself.
    pub(super) fn framed(&self, value: &Expr) -> Expr {
        let mut value = value.clone();
        value.each_mut(&mut |e| match &mut e.kind {
            ExprKind::Cmp(_, a, b) => {
                [a, b].into_iter().for_each(|x| self.replace(x, &self.next));
                false
            }
            _ => {
                self.replace_one(e, &self.frames);
                true
            }
        });
        value
    }

    fn replace(&self, value: &mut Expr, maxima: &BTreeMap<usize, VarId>) {
        value.each_mut(&mut |e| {
            self.replace_one(e, maxima);
            true
        });
    }

    fn replace_one(&self, value: &mut Expr, maxima: &BTreeMap<usize, VarId>) {
        if let ExprKind::Var(var) = &mut value.kind {
            let maximum = self.known.total(*var).and_then(|total| maxima.get(&total));
            *var = *maximum.or_else(|| self.inside.get(var)).unwrap_or(var);
        }
    }

    /// The maximum with that of a tile, and what it is taken to be; the statement that updates it at the end of the step.
    fn frame(&mut self, member: &Member, body: &mut Vec<Stmt>) -> Stmt {
        let carried = self.carried[&member.total];
        let own = self.framed(&member.value);
        let total = &self.known.totals[member.total];
        let (name, span, op) = (self.known.name(total.var).to_string(), total.span, total.op);
        let elem = self.known.types[usize::from(total.var.0)].elem;
        let mut bind = |kernel: &mut Kernel, what: &str, value: Expr| {
            let id = fresh(kernel, &format!("{name}.{what}"), false, span);
            body.push(Stmt::Let { var: id, value });
            id
        };
        let tile = bind(&mut self.kernel, op.name(), own);
        let next = bin(op.combine(), var(carried, span), var(tile, span));
        let next = bind(&mut self.kernel, "next", next);
        self.next.insert(member.total, next);
        if self.fold.frames.contains(&member.total) {
            let least = cmp(CmpOp::Eq, var(next, span), neutral(op, elem, span));
            let frame = select(least, constant(0.0, elem, span), var(next, span));
            let frame = bind(&mut self.kernel, "frame", frame);
            self.frames.insert(member.total, frame);
        }
        let mut value = var(next, span);
        self.keep(carried, &mut value, false);
        Stmt::Assign { var: carried, value, span }
    }

    /// What a sum at the maximum before is scaled by.
    fn scale(
        &mut self,
        power: &Power,
        dtype: DType,
        scales: &mut Vec<(Power, DType, VarId)>,
        body: &mut Vec<Stmt>,
    ) -> Expr {
        let total = &self.known.totals[power.of];
        let span = total.span;
        if let Some((.., scale)) = scales.iter().find(|(other, of, _)| other == power && *of == dtype) {
            return var(*scale, span);
        }
        let own = self.known.type_of_total(power.of).dtype();
        // In a type that has the numbers of both.
        let wide = if own == dtype { own } else { DType::F32 };
        let of_type = |x: Expr, from: DType, to: DType| {
            if from == to { x } else { cast(ElemType::Fixed(to), x) }
        };
        let [old, new] =
            [self.carried[&power.of], self.frames[&power.of]].map(|id| of_type(var(id, span), own, wide));
        let distance = if power.by > 0.0 { bin(BinOp::Sub, old, new) } else { bin(BinOp::Sub, new, old) };
        let exponent = match power.by.abs() {
            1.0 => distance,
            by => bin(BinOp::Mul, distance, constant(by, ElemType::Fixed(wide), span)),
        };
        let value = of_type(expr(ExprKind::Un(power.op, Box::new(exponent)), span), wide, dtype);
        let name = format!("{}.scale", self.known.name(total.var));
        let scale = fresh(&mut self.kernel, &name, false, span);
        body.push(Stmt::Let { var: scale, value });
        scales.push((*power, dtype, scale));
        var(scale, span)
    }

    /// A member with what a tile adds to it.
    fn update(&self, member: &Member, sum: Expr) -> Stmt {
        let (carried, span) = (self.carried[&member.total], self.known.totals[member.total].span);
        let elem = ElemType::Fixed(self.accumulator(member));
        let mut product = false;
        let mut value = match &member.value.kind {
            ExprKind::Dot(a, b, _) => {
                product = true;
                let [a, b] = [a, b].map(|x| Box::new(self.framed(x)));
                expr(ExprKind::Dot(a, b, Box::new(sum)), span)
            }
            ExprKind::Reduce(op, x, axis) => {
                let x = self.framed(x);
                let x =
                    if elem == self.known.type_of_total(member.total).elem { x } else { widened(elem, x) };
                let tile = expr(ExprKind::Reduce(*op, Box::new(x), *axis), span);
                bin(op.combine(), sum, tile)
            }
            _ => unreachable!("members are reductions"),
        };
        self.keep(carried, &mut value, product);
        Stmt::Assign { var: carried, value, span }
    }

    /// Keeps what is carried of rows without points in the tile.
    pub(super) fn keep(&self, carried: VarId, value: &mut Expr, product: bool) {
        let axis = self.known.axis;
        let limits = self.limits();
        let Some(some) = limits::in_tile(axis, &limits) else { return };
        if !limits::is_covered(carried, value, &[axis].into()) {
            limits::keep(carried, value, some, product);
        }
    }

    /// The limits of the axis, by the variables that loaded ones have.
    pub(super) fn limits(&self) -> Limits {
        let axis = &self.known.kernel.axes[usize::from(self.known.axis.0)];
        let named = |end: &Expr, suffix: &str| {
            let name = format!("{}.{suffix}", axis.name);
            let bound = self
                .known
                .lets
                .iter()
                .find(|(id, (_, value))| self.known.name(**id) == name && self.known.same(value, end));
            bound.map_or_else(|| end.clone(), |(id, _)| var(*id, end.span))
        };
        Limits {
            from: axis.limits.from.as_ref().map(|end| named(end, "from")),
            to: axis.limits.to.as_ref().map(|end| named(end, "to")),
        }
    }
}

/// Elements of a wider type; a mask stays outside.
fn widened(elem: ElemType, x: Expr) -> Expr {
    let span = x.span;
    match x.kind {
        ExprKind::Select(c, a, b) => select(*c, widened(elem, *a), widened(elem, *b)),
        ExprKind::Const { value, .. } => constant(value, elem, span),
        _ => cast(elem, x),
    }
}
