//! How values depend on a running maximum: each is x, or x + c·m, or x·2^(-n·m).
//!
//! Two maxima are known of in a step: the one that it starts with, and the one that it makes of it.
//!
//! | Expression | Is |
//! |---|---|
//! | `exp(x - top)` | x·2^-top |
//! | `exp(m - top)` | 2^(m - top): from sums that m scales to those that top scales |
//! | a sum, the greatest, the least of what is scaled alike | scaled alike |
//! | `a / b`, where both are scaled alike | x |
//! | `m + log(l)`, where l is x·exp(-m) | x |
//! | `m + log(l) * 1.442695`, the logarithm to base 2, where l is x·2^-m | x |
//!
//! In a loop a maximum may be too low, so that what it scales overflows. That is seen in the sums at the end: infinities and what is no
//! number go on to them. So nothing there may hide one: no quotient by what is scaled, no comparison of it, no power that grows with
//! the maximum. Behind the loop the sums are known to be finite. What becomes numbers without infinities is a list of its own.

use super::super::{Expr, Nest, Stmt, Target, ValueId};
use crate::{
    dtype::DType,
    op::{BinOp, CmpOp, RedOp, UnOp},
};
use std::collections::BTreeMap;

/// How a value depends on the maximum at the start of the step, and on the one that the step makes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Depends {
    /// x + c·maximum, for both. x alone where c is 0.
    Sum([i32; 2]),
    /// x·2^(-n·maximum), for both; one n is not 0.
    Scaled([i32; 2]),
    /// 0: scaled by anything.
    Zero,
}
use Depends::{Scaled, Sum, Zero};

/// What does not depend on a maximum.
pub(super) const FREE: Depends = Sum([0; 2]);

impl Depends {
    /// The powers that it is scaled by.
    fn scale(self) -> Option<[i32; 2]> {
        match self {
            FREE | Zero => Some([0; 2]),
            Scaled(n) => Some(n),
            Sum(_) => None,
        }
    }

    /// A multiple of powers.
    pub fn scaled(n: [i32; 2]) -> Depends {
        if n == [0; 2] { FREE } else { Scaled(n) }
    }

    pub fn is_free(self) -> bool {
        matches!(self, FREE | Zero)
    }

    /// What both are. 0 is scaled by anything, but no sum with a maximum.
    fn like(self, other: Depends) -> Option<Depends> {
        match (self, other) {
            (Zero, x) | (x, Zero) => x.scale().map(|_| x),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// Where the values are that something is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// In the loop: what overflows has to be seen behind it.
    Loop,
    /// Behind it: the maximum and the sums are finite.
    Behind,
}

/// What is known of the values at a point.
pub(super) struct Known<'n> {
    pub nest: &'n Nest,
    pub at: At,
    /// Values that depend on the maximum, or may; `None`: otherwise than can be said.
    pub of: BTreeMap<ValueId, Option<Depends>>,
    /// The maximum, and what a step makes of it.
    pub frames: [ValueId; 2],
    /// The exponential that powers are of.
    pub power: Option<UnOp>,
    /// What becomes a number of a type without infinities in the loop: too large, it would be the largest one, and not be seen.
    pub narrow: Vec<(Expr, DType)>,
}

impl Known<'_> {
    /// How an expression depends on the maximum; `None` where it is none of these forms.
    pub fn of(&mut self, expr: &Expr) -> Option<Depends> {
        let found = self.form(expr)?;
        match (self.at, found) {
            // A power that grows with the maximum is too small where that is too low, and may be lost.
            (At::Loop, Scaled([old, new])) if new < 0 || old + new < 0 => None,
            _ => Some(found),
        }
    }

    fn form(&mut self, expr: &Expr) -> Option<Depends> {
        Some(match expr {
            Expr::Get(value) => self.of.get(value).copied().unwrap_or(Some(FREE))?,
            Expr::Const(x, _) if *x == 0.0 => Zero,
            Expr::Un(UnOp::Neg, a) => match self.of(a)? {
                Sum(c) => Sum(c.map(|c| -c)),
                other => other,
            },
            Expr::Un(UnOp::Abs, a) => self.of(a).filter(|a| a.scale().is_some())?,
            Expr::Un(op @ (UnOp::Exp | UnOp::Exp2), a) => match self.of(a)? {
                FREE | Zero => FREE,
                Sum(c) if self.is_power(*op) => Scaled(c.map(|c| -c)),
                _ => return None,
            },
            Expr::Un(UnOp::Log, a) => self.logarithm(a, UnOp::Exp)?,
            Expr::Bin(BinOp::Mul, a, b) if let Some(of) = to_base_2(a, b).or(to_base_2(b, a)) => {
                self.logarithm(of, UnOp::Exp2)?
            }
            Expr::Bin(op @ (BinOp::Add | BinOp::Sub), a, b) => {
                let sign = if *op == BinOp::Add { 1 } else { -1 };
                match (self.of(a)?, self.of(b)?) {
                    (Sum(a), Sum(b)) => Sum([a[0] + sign * b[0], a[1] + sign * b[1]]),
                    (x, Zero) => x,
                    (Zero, Sum(b)) => Sum(b.map(|c| sign * c)),
                    (a, b) => a.like(b)?,
                }
            }
            Expr::Bin(BinOp::Mul, a, b) => match (self.of(a)?, self.of(b)?) {
                (Zero, x) | (x, Zero) => x.scale().map(|_| Zero)?,
                (a, b) => {
                    let (a, b) = (a.scale()?, b.scale()?);
                    Depends::scaled([a[0] + b[0], a[1] + b[1]])
                }
            },
            Expr::Bin(BinOp::Div, a, b) => {
                let (a, b) = (self.of(a)?.scale()?, self.of(b)?.scale()?);
                // By what is infinite it would be 0.
                if self.at == At::Loop && b != [0; 2] {
                    return None;
                }
                Depends::scaled([a[0] - b[0], a[1] - b[1]])
            }
            // Powers are positive.
            Expr::Bin(BinOp::Max | BinOp::Min, a, b) => self.of(a)?.like(self.of(b)?)?,
            Expr::Cmp(_, a, b) => {
                let compared = self.of(a)?.like(self.of(b)?)?;
                // Two infinities are equal, and what they stand for is not.
                if self.at == At::Loop && !compared.is_free() {
                    return None;
                }
                FREE
            }
            Expr::Select(c, _, b) if self.never(c) => self.of(b)?,
            Expr::Select(c, a, b) => {
                self.of(c)?.is_free().then_some(())?;
                self.of(a)?.like(self.of(b)?)?
            }
            // The difference from a maximum that is too low is large, and would be rounded more than one from the greatest.
            Expr::Cast(dtype, a) => match self.of(a)? {
                FREE | Zero => FREE,
                scaled @ Scaled(_) => {
                    let format = dtype.float()?;
                    if !format.has_infinities() {
                        (self.at == At::Loop).then_some(())?;
                        self.narrow.push(((**a).clone(), *dtype));
                    }
                    scaled
                }
                _ => return None,
            },
            other => {
                let free = |v: &ValueId| self.of.get(v).is_none_or(|d| d.is_some_and(Depends::is_free));
                other.values().iter().all(free).then_some(FREE)?
            }
        })
    }

    /// The logarithm of an expression to the base of these powers.
    fn logarithm(&mut self, of: &Expr, power: UnOp) -> Option<Depends> {
        match self.of(of)? {
            FREE | Zero => Some(FREE),
            Scaled(n) if self.at == At::Behind && self.is_power(power) => Some(Sum(n.map(|n| -n))),
            _ => None,
        }
    }

    /// Whether a condition says that a maximum is infinite: it is seen to that it is not.
    fn never(&self, condition: &Expr) -> bool {
        match condition {
            Expr::Cmp(CmpOp::Eq, a, b) if is_infinite(b) => {
                matches!(&**a, Expr::Get(value) if self.frames.contains(value))
            }
            Expr::Bin(BinOp::And, a, b) => self.never(a) || self.never(b),
            _ => false,
        }
    }

    fn is_power(&mut self, op: UnOp) -> bool {
        *self.power.get_or_insert(op) == op
    }

    /// What a leaf stores, or leaves in the value that it writes: this expression, added to what is there where it is reduced.
    pub fn leaf(&mut self, leaf: &Stmt, (target, expr): (Target, &Expr)) -> Option<Depends> {
        let found = self.of(expr);
        let Target::Value(value) = target else { return found };
        let found = match (leaf, found) {
            (Stmt::Red { op, .. }, Some(found)) => self.reduced(value, *op, found),
            // A point has as many of what all terms have added to them as there are points before it.
            (Stmt::Scan { .. }, found) => found.filter(|found| found.is_free()),
            (_, found) => found,
        };
        self.of.insert(value, found);
        found
    }

    /// A reduction of what is scaled alike, or of what all terms have added to them; of anything else that does not depend on a maximum.
    fn reduced(&self, value: ValueId, op: RedOp, term: Depends) -> Option<Depends> {
        if !matches!(op, RedOp::Add | RedOp::Max | RedOp::Min) || op == RedOp::Add && term.scale().is_none() {
            return term.is_free().then_some(FREE);
        }
        let start = match self.nest.value(value).init {
            // Neutral elements: 0 of sums, infinities of the others.
            None if op == RedOp::Add => Some(Zero),
            None => None,
            Some(0.0) => Some(Zero),
            Some(_) => Some(FREE),
        };
        match self.of.get(&value).copied().unwrap_or(start) {
            Some(before) => before.like(term),
            None if self.of.contains_key(&value) => None,
            None => Some(term),
        }
    }
}

/// Of what a product is the logarithm to base 2: of natural ones it is log₂ e times as large, as near as f32 says it.
fn to_base_2<'e>(logarithm: &'e Expr, factor: &Expr) -> Option<&'e Expr> {
    match (logarithm, factor) {
        (Expr::Un(UnOp::Log, of), Expr::Const(x, _)) if *x as f32 == std::f32::consts::LOG2_E => Some(of),
        _ => None,
    }
}

/// Whether an expression is an infinity.
pub(super) fn is_infinite(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(x, _) if x.is_infinite())
}
