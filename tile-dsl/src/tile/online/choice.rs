//! Reductions of what stands where the maximum is: of `select(g == m, x, none)`.
//!
//! ```text
//! let m = max(g, n); let at = min(select(g == m, n, none), n);   →   at = min(select(m == m.next, at, none), min(select(g == m.next, n, none), n));
//! ```
//! What was chosen at a maximum counts as long as the maximum stays, and nothing of it when a greater one comes. `none` is what the
//! reduction ignores, so nothing is rounded: the result is that of the text, also for rows of −∞ and with NaN. `argmax` chooses where
//! `(g == m) | !(g == g)`: once the maximum is NaN, what was chosen stays.

use super::weight::Weigher;
use crate::{
    op::{BinOp, CmpOp, UnOp},
    tile::{Expr, ExprKind, make},
};

/// From where a reduction takes what it reduces.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// The maximum or minimum, by its place among the totals.
    pub of: usize,
    /// Whether it takes what stands at NaN, too.
    pub nan: bool,
}

impl Weigher<'_> {
    /// The maximum or minimum whose places a reduction chooses from, if it is one of those.
    pub fn chooses(&self, value: &Expr) -> Option<Choice> {
        let known = self.known;
        let ExprKind::Reduce(op, x, _) = &value.kind else { return None };
        let x = match &x.kind {
            ExprKind::Select(c, x, _) if self.is_mask(c) => x,
            _ => x,
        };
        let ExprKind::Select(chosen, x, none) = &known.resolved(x).kind else { return None };
        let (chosen, number) = match &known.resolved(chosen).kind {
            ExprKind::Bin(BinOp::Or, a, b) => (known.resolved(a), Some(known.resolved(b))),
            _ => (known.resolved(chosen), None),
        };
        let ExprKind::Cmp(CmpOp::Eq, a, b) = &chosen.kind else { return None };
        let elem = known.kernel.type_of(none, &known.types).elem;
        let ExprKind::Const { value: neutral, .. } = make::neutral(*op, elem, none.span).kind else {
            return None;
        };
        let plain = self.folded(x).is_empty() && known.constant(none) == Some(neutral);
        let maximum = |e: &Expr, of: usize| known.resolved(e).kind == ExprKind::Var(known.totals[of].var);
        let element = |e: &Expr, of: usize| known.same(e, self.maximum_of(of));
        let of = self
            .maxima
            .iter()
            .copied()
            .find(|of| maximum(a, *of) && element(b, *of) || maximum(b, *of) && element(a, *of))?;
        let is_nan = |e: &Expr| match &e.kind {
            ExprKind::Un(UnOp::Not, same) => match &known.resolved(same).kind {
                ExprKind::Cmp(CmpOp::Eq, a, b) => element(a, of) && element(b, of),
                _ => false,
            },
            _ => false,
        };
        (plain && number.is_none_or(is_nan)).then_some(Choice { of, nan: number.is_some() })
    }
}
