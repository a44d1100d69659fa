//! Sums of multiples of expressions: what stands in an exponent.

use super::known::Known;
use crate::{
    op::{BinOp, UnOp},
    tile::{Expr, ExprKind},
};

/// Multiples of expressions that are no sums themselves; constants are left out.
pub(super) struct Linear<'e>(pub Vec<(f64, &'e Expr)>);

impl<'e> Linear<'e> {
    /// An expression as a sum.
    pub fn of(known: &'e Known<'_>, value: &'e Expr) -> Self {
        let mut sum = Linear(Vec::new());
        sum.add(known, value, 1.0);
        sum
    }

    /// Adds a multiple of an expression.
    fn add(&mut self, known: &'e Known<'_>, value: &'e Expr, by: f64) {
        let value = known.resolved(value);
        if known.constant(value).is_some() {
            return;
        }
        match &value.kind {
            ExprKind::Bin(BinOp::Add, a, b) => {
                self.add(known, a, by);
                self.add(known, b, by);
            }
            ExprKind::Bin(BinOp::Sub, a, b) => {
                self.add(known, a, by);
                self.add(known, b, -by);
            }
            ExprKind::Un(UnOp::Neg, x) => self.add(known, x, -by),
            ExprKind::Bin(BinOp::Mul, a, b) => match (known.constant(a), known.constant(b)) {
                (Some(c), _) => self.add(known, b, by * c),
                (_, Some(c)) => self.add(known, a, by * c),
                _ => self.term(known, value, by),
            },
            ExprKind::Bin(BinOp::Div, a, b) => match known.constant(b) {
                Some(c) => self.add(known, a, by / c),
                None => self.term(known, value, by),
            },
            // Each number of the narrower type is one of the wider.
            ExprKind::Cast(_, x) if widens(known, value, x) => self.add(known, x, by),
            _ => self.term(known, value, by),
        }
    }

    fn term(&mut self, known: &Known<'_>, value: &'e Expr, by: f64) {
        match self.0.iter_mut().find(|(_, term)| known.same(term, value)) {
            Some((times, _)) => *times += by,
            None => self.0.push((by, value)),
        }
        self.0.retain(|(times, _)| *times != 0.0);
    }

    /// Adds a multiple of another sum.
    pub fn plus(&mut self, known: &Known<'_>, other: &Linear<'e>, by: f64) {
        other.0.iter().for_each(|(times, term)| self.term(known, term, times * by));
        // What cancels but for the rounding of the numbers in the text.
        self.0.retain(|(times, _)| times.abs() > 1e-9 * by.abs());
    }
}

/// Whether a cast of `x` to the type of `value` keeps every number.
fn widens(known: &Known<'_>, value: &Expr, x: &Expr) -> bool {
    let (to, from) = (known.dtype(value).float(), known.dtype(x).float());
    matches!((to, from), (Some(to), Some(from)) if to.holds(from))
}
