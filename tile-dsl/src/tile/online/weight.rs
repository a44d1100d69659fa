//! Whether the terms of a sum follow when a maximum changes: a term is a product of powers of the distance from the maximum, of
//! what knows no total, and of what is the same for all points.
//!
//! ```text
//! f(x, m) = exp(c·(g(x) − m)) · u(x) · h(totals)
//! f(x, m') = exp(c·(m − m')) · f(x, m)            ; the scale is the same for all terms, and at most 1 if m' ≥ m and c > 0
//! ```
//! So a sum that was taken at `m` is scaled by `exp(c·(m − m'))`, and `h`, which is known after the loop only, is multiplied with it
//! there. That `m` is the maximum of the *same* `g` bounds each power by 1 at every step.

use super::{
    known::{Known, Totals},
    linear::Linear,
};
use crate::{
    index::AxisId,
    op::{BinOp, RedOp, UnOp},
    span::SpanId,
    tile::{Expr, ExprKind, VarId, limits, make},
};
use std::collections::{BTreeMap, BTreeSet};

/// A power: `exp(by · (g − m))`, or of 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Power {
    /// The maximum or minimum, by its place among the totals.
    pub of: usize,
    /// `exp` or `exp2`.
    pub op: UnOp,
    pub by: f64,
}

/// What leaves a sum: a factor, or a divisor.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    /// [`BinOp::Mul`] or [`BinOp::Div`].
    pub op: BinOp,
    pub value: Expr,
}

/// A term without what leaves it.
pub(super) struct Term {
    pub value: Expr,
    pub powers: Vec<Power>,
    pub outside: Vec<Outside>,
    /// Whether its powers bound it by 1.
    bounded: bool,
}

/// Why a term does not follow.
#[derive(Debug)]
pub(super) struct Why {
    pub text: String,
    /// The part that does not follow.
    pub span: SpanId,
    /// What to write instead.
    pub instead: Option<String>,
}

impl Why {
    pub fn new(text: String, part: &Expr) -> Self {
        Why { text, span: part.span, instead: None }
    }

    fn instead(self, text: impl Into<String>) -> Self {
        Why { instead: Some(text.into()), ..self }
    }
}

type Weighed<T = Term> = Result<T, Why>;

/// Takes terms apart.
pub(super) struct Weigher<'k> {
    pub known: &'k Known<'k>,
    /// Totals that are there before the loop.
    pub before: Totals,
    /// Maxima and minima that the loop keeps.
    pub maxima: Totals,
    /// Variables whose value is another one in the loop, as something leaves it.
    pub inside: BTreeMap<VarId, Expr>,
}

impl<'k> Weigher<'k> {
    /// The totals that an expression depends on and that the loop makes.
    pub fn folded(&self, value: &Expr) -> Totals {
        &self.known.depends_on(value) - &self.before
    }

    /// The terms of a total: what it sums with its powers and with what leaves it.
    pub fn total(&mut self, value: &Expr) -> Weighed {
        match &value.kind {
            ExprKind::Reduce(op, x, axis) => {
                let Term { value: x, powers, outside, bounded } = self.term(x)?;
                let kind = ExprKind::Reduce(*op, Box::new(x), *axis);
                Ok(Term { value: Expr { kind, span: value.span }, powers, outside, bounded })
            }
            ExprKind::Dot(a, b, acc) => {
                let known = self.known;
                if known.constant(acc) != Some(0.0) {
                    let text = format!("it starts from `{}`, and not from zeros", known.kernel.show(acc));
                    return Err(Why::new(text, acc).instead("start from zeros, and add it to the result"));
                }
                let (a, b) = (self.term(a)?, self.term(b)?);
                let axes = known.axes(acc);
                let left =
                    &known.axes_with(&self.inside, &a.value) | &known.axes_with(&self.inside, &b.value);
                let name = |axis: &AxisId| &known.kernel.axes[usize::from(axis.0)].name;
                let of_power = |power: &Power| known.type_of_total(power.of).axes.clone();
                let of_factor = |outside: &Outside| known.axes(&outside.value);
                let mut leaves: BTreeSet<AxisId> =
                    [&a, &b].into_iter().flat_map(|x| &x.powers).flat_map(of_power).collect();
                leaves.extend([&a, &b].into_iter().flat_map(|x| &x.outside).flat_map(of_factor));
                if let Some(axis) = leaves.difference(&axes).next() {
                    let axis = name(axis);
                    let text = format!(
                        "it sums over `{axis}`, too, and a factor of its terms differs along `{axis}`"
                    );
                    return Err(Why::new(text, value));
                }
                if let Some(axis) = axes.difference(&left).next() {
                    let text = format!("only what leaves its terms has the axis `{}`", name(axis));
                    return Err(Why::new(text, value));
                }
                let kind = ExprKind::Dot(Box::new(a.value), Box::new(b.value), acc.clone());
                Ok(Term {
                    value: Expr { kind, span: value.span },
                    powers: [a.powers, b.powers].concat(),
                    outside: [a.outside, b.outside].concat(),
                    bounded: false,
                })
            }
            _ => unreachable!("totals are reductions"),
        }
    }

    fn term(&mut self, value: &Expr) -> Weighed {
        let plain = |value: &Expr, bounded| Term {
            value: value.clone(),
            powers: Vec::new(),
            outside: Vec::new(),
            bounded,
        };
        if self.folded(value).is_empty() {
            return Ok(plain(value, false));
        }
        let span = value.span;
        let again = |kind: ExprKind, term: Term| Term { value: Expr { kind, span }, ..term };
        match &value.kind {
            ExprKind::Var(var) => self.variable(*var, value),
            ExprKind::Un(op @ (UnOp::Exp | UnOp::Exp2), exponent) => {
                let powers = self.powers(*op, exponent, value)?;
                Ok(Term { powers, ..plain(value, true) })
            }
            ExprKind::Un(op @ (UnOp::Neg | UnOp::Tf32), x) => {
                let term = self.term(x)?;
                Ok(again(ExprKind::Un(*op, Box::new(term.value.clone())), term))
            }
            ExprKind::Cast(elem, x) => {
                let known = self.known;
                if !known.dtype(value).is_float() {
                    return Err(self.no_product(value));
                }
                let term = self.term(x)?;
                if !has_range(known, value, x) && !term.bounded {
                    let text = format!(
                        "`{}` does not bound `{}`: for a part, it may be too large for {}",
                        self.blamed(value),
                        known.kernel.show(x),
                        known.dtype(value)
                    );
                    return Err(Why::new(text, value).instead("multiply behind the cast"));
                }
                Ok(again(ExprKind::Cast(*elem, Box::new(term.value.clone())), term))
            }
            ExprKind::Bin(op @ (BinOp::Mul | BinOp::Div), a, b) => self.product(*op, a, b, value),
            ExprKind::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let alike = [a, b].map(|x| !self.folded(x).is_empty() && self.known.along(x));
                if alike != [true; 2] {
                    return Err(self.no_product(value));
                }
                let (a, b) = (self.term(a)?, self.term(b)?);
                let same_powers =
                    a.powers.len() == b.powers.len() && a.powers.iter().all(|p| b.powers.contains(p));
                if !same_powers || !a.outside.is_empty() || !b.outside.is_empty() {
                    return Err(self.no_product(value));
                }
                let kind = ExprKind::Bin(*op, Box::new(a.value), Box::new(b.value));
                Ok(Term { value: Expr { kind, span }, bounded: false, ..plain_of(a.powers) })
            }
            ExprKind::Select(c, x, none) if self.is_mask(c) && self.known.constant(none) == Some(0.0) => {
                let term = self.term(x)?;
                let kind = ExprKind::Select(c.clone(), Box::new(term.value.clone()), none.clone());
                Ok(again(kind, term))
            }
            _ => Err(self.no_product(value)),
        }
    }

    /// Whether a condition is the one that the limits of the axis are.
    pub fn is_mask(&self, condition: &Expr) -> bool {
        let axis = self.known.axis;
        let limits = &self.known.kernel.axes[usize::from(axis.0)].limits;
        limits::inside(axis, limits).is_some_and(|inside| self.known.same(&inside, condition))
    }

    /// A variable: what leaves its value leaves it in the loop.
    fn variable(&mut self, var: VarId, value: &Expr) -> Weighed {
        let known = self.known;
        let is_value = known.total(var).is_none() && known.along(value);
        let Some((_, bound)) = known.lets.get(&var).filter(|_| is_value) else {
            return Err(self.no_product(value));
        };
        let term = self.term(bound)?;
        if term.outside.is_empty() {
            return Ok(Term { value: value.clone(), ..term });
        }
        if matches!(term.value.kind, ExprKind::Var(_)) {
            return Ok(term);
        }
        self.inside.insert(var, term.value.clone());
        Ok(Term { value: value.clone(), ..term })
    }

    fn product(&mut self, op: BinOp, a: &Expr, b: &Expr, whole: &Expr) -> Weighed {
        let leaves = |x: &Expr| !self.folded(x).is_empty() && !self.known.along(x);
        let (a_leaves, b_leaves) = (leaves(a), leaves(b));
        match (op, a_leaves, b_leaves) {
            (_, false, true) => {
                let mut term = self.term(a)?;
                term.outside.push(Outside { op, value: b.clone() });
                Ok(term)
            }
            (BinOp::Mul, true, false) => {
                let mut term = self.term(b)?;
                term.outside.push(Outside { op, value: a.clone() });
                Ok(term)
            }
            (BinOp::Div, false, false) if !self.folded(b).is_empty() => {
                let text = format!(
                    "`{}` divides by what depends on `{}`: as it changes, the quotient may overflow",
                    self.known.kernel.show(whole),
                    self.blamed(b)
                );
                Err(Why::new(text, whole))
            }
            (_, true, true) | (BinOp::Div, true, _) => Err(self.no_product(whole)),
            _ => {
                let (a, b) = (self.term(a)?, self.term(b)?);
                let kind = ExprKind::Bin(op, Box::new(a.value), Box::new(b.value));
                Ok(Term {
                    value: Expr { kind, span: whole.span },
                    powers: [a.powers, b.powers].concat(),
                    outside: [a.outside, b.outside].concat(),
                    bounded: op == BinOp::Mul && a.bounded && b.bounded,
                })
            }
        }
    }

    /// The powers that `exp` of an exponent is a product of, besides what knows no total of the loop.
    fn powers(&self, op: UnOp, exponent: &Expr, whole: &Expr) -> Weighed<Vec<Power>> {
        let known = self.known;
        let mut left = Linear::of(known, exponent);
        let mut powers = Vec::new();
        for of in &self.maxima {
            let of = *of;
            let total = &known.totals[of];
            let found = left.0.iter().find(|(_, term)| term.kind == ExprKind::Var(total.var));
            let Some(by) = found.map(|(times, _)| -times) else { continue };
            let rises = total.op == RedOp::Max;
            if (by > 0.0) != rises {
                let (least, name) = (if rises { "greatest" } else { "least" }, known.name_of(of));
                let text = format!(
                    "`{}` grows without bound as its elements go away from `{name}`, which is their {least}",
                    known.kernel.show(whole)
                );
                return Err(Why::new(text, whole));
            }
            powers.push(Power { of, op, by });
        }
        for power in &powers {
            let total = &known.totals[power.of];
            let self_term = make::var(total.var, SpanId::NONE);
            // Without the maximum, then without what it is the maximum of.
            left.0.retain(|(_, term)| term.kind != self_term.kind);
            let Linear(of) = Linear::of(known, self.maximum_of(power.of));
            let mut cancelled = Linear(left.0);
            cancelled.plus(known, &Linear(of), -power.by);
            left = cancelled;
        }
        let known_late = left.0.iter().find_map(|(_, term)| Some((*term, *self.folded(term).first()?)));
        if let Some((term, total)) = known_late {
            return Err(self.not_linear(term, total, whole));
        }
        match left.0.iter().any(|(_, term)| known.along(term)) {
            true => Err(self.unbounded(&powers, whole)),
            false => Ok(powers),
        }
    }

    /// What a maximum is taken of, without the mask of the axis.
    pub fn maximum_of(&self, total: usize) -> &'k Expr {
        let (_, value) = self.known.lets[&self.known.totals[total].var];
        let ExprKind::Reduce(_, x, _) = &value.kind else { unreachable!("a maximum is a reduction") };
        match &x.kind {
            ExprKind::Select(c, x, _) if self.is_mask(c) => x,
            _ => x,
        }
    }

    /// An exponent has a total other than by subtracting a multiple of it.
    fn not_linear(&self, term: &Expr, total: usize, whole: &Expr) -> Why {
        let (known, name) = (self.known, self.known.name_of(total));
        let shown = known.kernel.show(whole);
        let total = &known.totals[total];
        let mut instead = None;
        let text = match (&term.kind, total.op) {
            (ExprKind::Var(var), RedOp::Add) if *var == total.var => {
                format!("`{name}` of a part does not bound `{shown}`: it may overflow")
            }
            (ExprKind::Bin(BinOp::Mul, a, b), _)
                if [a, b].into_iter().any(|x| !known.along(x) && self.folded(x).is_empty()) =>
            {
                let factor = [a, b].into_iter().find(|x| self.folded(x).is_empty()).unwrap_or(a);
                let factor = known.kernel.show(factor);
                instead = Some(format!("multiply by `{factor}` first, and take `{name}` of the product"));
                format!(
                    "the sign of `{factor}` in `{shown}` is not known: `{name}` bounds it for one of them"
                )
            }
            _ if known.along(term) => {
                let term = known.kernel.show(term);
                format!("in `{shown}`, `{term}` is no multiple of `{name}` and of what does not depend on it")
            }
            _ => format!("in `{shown}`, `{}` is known after the last tile only", known.kernel.show(term)),
        };
        Why { instead, ..Why::new(text, whole) }
    }

    /// An exponent has elements of something else than what the maximum is of.
    fn unbounded(&self, powers: &[Power], whole: &Expr) -> Why {
        let known = self.known;
        let shown = known.kernel.show(whole);
        let text = match powers.first() {
            Some(power) => {
                let (name, of) = (known.name_of(power.of), known.kernel.show(self.maximum_of(power.of)));
                let most = if known.totals[power.of].op == RedOp::Max { "greatest" } else { "least" };
                format!("`{name}` is the {most} of `{of}` and does not bound `{shown}`: it may overflow")
            }
            None => format!("nothing bounds `{shown}`: it may overflow"),
        };
        Why::new(text, whole)
    }

    /// A factor that is none.
    fn no_product(&self, value: &Expr) -> Why {
        let name = self.blamed(value);
        let text = format!(
            "`{}` is no product of what does not depend on `{name}` and what depends on `{name}` alone",
            self.known.kernel.show(value)
        );
        Why::new(text, value)
    }

    /// The total that a value should not depend on in the way it does.
    fn blamed(&self, value: &Expr) -> &'k str {
        self.folded(value).first().map_or("?", |total| self.known.name_of(*total))
    }
}

/// Whether a cast of `x` to the type of `value` has its greatest numbers, but for rounding.
fn has_range(known: &Known<'_>, value: &Expr, x: &Expr) -> bool {
    let (to, from) = (known.dtype(value).float(), known.dtype(x).float());
    matches!((to, from), (Some(to), Some(from)) if to.max() >= from.max() / 2.0 && (to.has_infinities() || !from.has_infinities()))
}

fn plain_of(powers: Vec<Power>) -> Term {
    let nothing = Expr { kind: ExprKind::Const { value: 0.0, elem: None }, span: SpanId::NONE };
    Term { value: nothing, powers, outside: Vec::new(), bounded: false }
}
