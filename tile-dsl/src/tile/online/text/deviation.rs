//! The steps of a sum of squared deviations, and what it is behind the loop.

use super::Writer;
use crate::{
    dtype::DType,
    op::{BinOp, RedOp},
    span::SpanId,
    tile::{
        Edge, ElemType, Expr, ExprKind, Limits, Stmt, VarId,
        make::{bin, cast, expr, neutral, select, var},
        online::{Member, named::fresh},
    },
};

const F32: ElemType = ElemType::Fixed(DType::F32);

/// What the loop carries besides the squares.
#[derive(Clone, Copy)]
pub(super) struct Center {
    count: VarId,
    mean: VarId,
}

impl Writer<'_> {
    /// The number of points and their mean, and their starts.
    pub(super) fn center(&mut self, member: &Member) -> Vec<Stmt> {
        let total = &self.known.totals[member.total];
        let (name, span) = (self.known.name(total.var).to_string(), total.span);
        let axes = self.axes_of(member);
        let mut starts = Vec::new();
        let [count, mean] = ["count", "center"].map(|what| {
            let id = fresh(&mut self.kernel, &format!("{name}.{what}"), true, span);
            let value = expr(ExprKind::Full { value: 0.0, elem: F32, axes: axes.clone() }, span);
            starts.push(Stmt::Let { var: id, value });
            id
        });
        self.centers.insert(member.total, Center { count, mean });
        starts
    }

    /// One step: points, mean and squares of the tile, and both parts together.
    pub(super) fn deviate(&mut self, member: &Member, body: &mut Vec<Stmt>) {
        let total = &self.known.totals[member.total];
        let (name, span) = (self.known.name(total.var).to_string(), total.span);
        let (squares, Center { count, mean }) = (self.carried[&member.total], self.centers[&member.total]);
        let ExprKind::Reduce(op, x, axis) = self.framed(&member.value).kind else {
            unreachable!("a sum of deviations is a reduction")
        };
        let read = |id: VarId| var(id, span);
        let reduced = |x: Expr| expr(ExprKind::Reduce(op, Box::new(x), axis), span);
        let masked = !self.limits().is_none();
        let points = self.points(span);
        let mut bind = |what: &str, value: Expr| {
            let id = fresh(&mut self.kernel, &format!("{name}.{what}"), false, span);
            body.push(Stmt::Let { var: id, value });
            id
        };
        let points = bind("points", points);
        let middle = bind("mean", bin(BinOp::Div, reduced((*x).clone()), read(points)));
        let off = |g: Expr| {
            let away = bin(BinOp::Sub, g, read(middle));
            bin(BinOp::Mul, away.clone(), away)
        };
        let off = match x.kind {
            ExprKind::Select(c, g, none) if masked => select(*c, off(*g), *none),
            kind => off(Expr { kind, span }),
        };
        let off = bind("off", reduced(off));
        let all = bind("all", bin(BinOp::Add, read(count), read(points)));
        let delta = bind("delta", bin(BinOp::Sub, read(middle), read(mean)));
        let share = bin(BinOp::Div, bin(BinOp::Mul, read(count), read(points)), read(all));
        // In this order nothing is infinite that then is multiplied by zero.
        let apart = bin(BinOp::Mul, bin(BinOp::Mul, read(delta), share), read(delta));
        let step = bin(BinOp::Mul, read(delta), bin(BinOp::Div, read(points), read(all)));
        let updates = [
            (squares, bin(BinOp::Add, bin(BinOp::Add, read(squares), read(off)), apart)),
            (mean, bin(BinOp::Add, read(mean), step)),
            (count, read(all)),
        ];
        for (carried, mut value) in updates {
            self.keep(carried, &mut value, false);
            body.push(Stmt::Assign { var: carried, value, span });
        }
    }

    /// The number of points of the tile at hand.
    fn points(&self, span: SpanId) -> Expr {
        let axis = self.known.axis;
        let [first, end] = [Edge::First, Edge::End].map(|edge| expr(ExprKind::Edge(axis, edge), span));
        let Limits { from, to } = self.limits();
        let first = from.map_or(first.clone(), |from| bin(BinOp::Max, from, first));
        let end = to.map_or(end.clone(), |to| bin(BinOp::Min, to, end));
        cast(F32, bin(BinOp::Sub, end, first))
    }

    /// The squares from what the text says, behind the loop.
    pub(super) fn squares(&self, member: &Member, from: &Expr) -> Stmt {
        let total = &self.known.totals[member.total];
        let span = total.span;
        let Center { count, mean } = self.centers[&member.total];
        let away = bin(BinOp::Sub, var(mean, span), from.clone());
        let away = bin(BinOp::Mul, bin(BinOp::Mul, away.clone(), away), var(count, span));
        let mut value = bin(BinOp::Add, var(self.carried[&member.total], span), away);
        if let Some(some) = self.has_points(span) {
            value = select(some, value, neutral(RedOp::Add, F32, span));
        }
        Stmt::Let { var: total.var, value }
    }
}
