//! Reductions of what stands where the maximum is: of `select(g == m, x, none)`.
//!
//! ```text
//! let m = max(g, n); let at = min(select(g == m, n, none), n);   →   at = min(select(m == m.next, at, none), min(select(g == m.next, n, none), n));
//! ```
//! What was chosen at a maximum counts as long as the maximum stays, and nothing of it when a greater one comes. `none` is what the
//! reduction ignores, so nothing is rounded: the result is that of the text, also for rows of −∞ and with NaN.

use super::weight::Weigher;
use crate::{
    op::CmpOp,
    tile::{Expr, ExprKind, make},
};

impl Weigher<'_> {
    /// The maximum or minimum whose places a reduction chooses from, if it is one of those.
    pub fn chooses(&self, value: &Expr) -> Option<usize> {
        let known = self.known;
        let ExprKind::Reduce(op, x, _) = &value.kind else { return None };
        let x = match &x.kind {
            ExprKind::Select(c, x, _) if self.is_mask(c) => x,
            _ => x,
        };
        let ExprKind::Select(chosen, x, none) = &known.resolved(x).kind else { return None };
        let ExprKind::Cmp(CmpOp::Eq, a, b) = &known.resolved(chosen).kind else { return None };
        let elem = known.kernel.type_of(none, &known.types).elem;
        let ExprKind::Const { value: neutral, .. } = make::neutral(*op, elem, none.span).kind else {
            return None;
        };
        let plain = self.folded(x).is_empty() && known.constant(none) == Some(neutral);
        let places = |of: &usize| {
            let maximum = |e: &Expr| known.resolved(e).kind == ExprKind::Var(known.totals[*of].var);
            let element = |e: &Expr| known.same(e, self.maximum_of(*of));
            maximum(a) && element(b) || maximum(b) && element(a)
        };
        self.maxima.iter().copied().find(places).filter(|_| plain)
    }
}
