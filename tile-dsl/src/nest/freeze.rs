//! Running maxima that stay as the first step leaves them (`freeze`).
//!
//! ```text
//! for j { top = max(m, max(s)); p = 2^(s - top); a = 2^(m - top); l = l·a + Σp; o = o·a + p·v; m = top }; out = o / l
//! →
//! the first step as above, the others: p = 2^(s - m); l = l + Σp; o = o + p·v
//! if some l or o is not finite: all steps again, as above
//! ```
//! The maximum is a *frame*: sums are multiples of 2^-m, and what is stored is the same in every frame. In a frame that is too low
//! a sum overflows, and then it stays infinite or becomes NaN: that is seen at the end, as is a frame that is infinite. In one that is too high the terms that are
//! lost are below 2^-126 of one that is in the sum.
//!
//! What depends on the frame, and how, is worked out for each value: it is x + c·m, or x·2^(-n·m).
//! Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), for the sums.

use super::{Digit, Expr, LoopKind, Nest, Placement, Steps, Stmt, Target, ValueId, leaves};
use crate::{
    dtype::DType,
    op::{BinOp, CmpOp, RedOp, UnOp},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A running maximum that all steps of a loop but the first leave as it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frozen {
    /// The loop.
    pub digit: Digit,
    /// The maximum.
    pub value: ValueId,
    /// What a step makes of it, and the same but where it is −∞: in the other steps, the maximum itself.
    pub next: Vec<ValueId>,
    /// Factors from one frame to the next: 1 in the other steps.
    pub ones: Vec<ValueId>,
    /// What nothing reads in the other steps, those above among them.
    pub unused: Vec<ValueId>,
    /// Sums that are finite where the frame is good enough.
    pub sums: Vec<ValueId>,
    /// A producer copies what the loop reads, or something inside does.
    pub produced: bool,
}

/// Why a maximum cannot stay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unfrozen {
    /// No loop carries it, or it has more than that loop in its `let`.
    NotCarried(ValueId),
    /// It is not set, once a step, to the greater of itself and something else.
    NoMaximum(ValueId),
    /// This depends on it otherwise than as a sum of powers, or a quotient of such sums.
    Depends(ValueId, Target),
    /// This sum starts at another number than 0.
    Start(ValueId, ValueId),
    /// The loop stores.
    Stores(ValueId),
    /// The loop changes this, which starts outside of the maximum's `let`.
    Outside(ValueId, ValueId),
    /// This sum is not in registers, or CTAs share it.
    Held(ValueId, ValueId),
    /// CTAs of a cluster copy for one another.
    Cluster(ValueId),
    /// Groups take turns.
    Turns(ValueId),
}

impl Unfrozen {
    /// The maximum.
    pub fn value(&self) -> ValueId {
        match self {
            Unfrozen::NotCarried(v)
            | Unfrozen::NoMaximum(v)
            | Unfrozen::Depends(v, _)
            | Unfrozen::Start(v, _)
            | Unfrozen::Stores(v)
            | Unfrozen::Outside(v, _)
            | Unfrozen::Held(v, _)
            | Unfrozen::Cluster(v)
            | Unfrozen::Turns(v) => *v,
        }
    }

    /// In words.
    pub fn text(&self, nest: &Nest) -> String {
        let name = |v: &ValueId| &nest.value(*v).name;
        let own = name(&self.value());
        let why = match self {
            Unfrozen::NotCarried(_) => "it is not what one loop at run time carries from step to step".into(),
            Unfrozen::NoMaximum(_) => {
                format!("a step does not set it, once, to `max({own}, ..)` of what does not depend on it")
            }
            Unfrozen::Depends(_, target) => {
                let target = match target {
                    Target::Value(value) => name(value),
                    Target::Access(access) => &nest.tensor(nest.access(*access).tensor).name,
                };
                format!(
                    "`{target}` would be another one: it is no sum of `exp2(x - {own})` or the like, and no quotient of such sums"
                )
            }
            Unfrozen::Start(_, sum) => format!("`{}` starts at another number than 0", name(sum)),
            Unfrozen::Stores(_) => "its loop stores, and a tile may be computed twice".into(),
            Unfrozen::Outside(_, other) => {
                format!("its loop changes `{}` too, which starts further out", name(other))
            }
            Unfrozen::Held(_, sum) => {
                format!("`{}` is not in the registers of the threads of one CTA", name(sum))
            }
            Unfrozen::Cluster(_) => {
                "CTAs of a cluster copy for one another, and one of them may compute its tile twice".into()
            }
            Unfrozen::Turns(_) => "groups take turns, and one of them may compute its tile twice".into(),
        };
        format!("`{own}` cannot stay as the first step leaves it: {why}")
    }
}

/// How a value depends on the frames: m at the start of the step, and the one that the step makes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Depends {
    /// x + c·frame, for both frames. x alone where c is 0.
    Sum([i32; 2]),
    /// x·2^(-n·frame), for both frames.
    Scaled([i32; 2]),
    /// 0, whatever the frame.
    Zero,
}
use Depends::{Scaled, Sum, Zero};

const FREE: Depends = Sum([0; 2]);

impl Depends {
    /// As a multiple of powers.
    fn scale(self) -> Option<[i32; 2]> {
        match self {
            FREE => Some([0; 2]),
            Scaled(n) => Some(n),
            _ => None,
        }
    }

    /// One that does not depend on the frame is a sum.
    fn scaled(n: [i32; 2]) -> Depends {
        if n == [0; 2] { FREE } else { Scaled(n) }
    }

    /// What both are; 0 is anything.
    fn like(self, other: Depends) -> Option<Depends> {
        match (self, other) {
            (Zero, x) | (x, Zero) => Some(x),
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// What is known of the values at a point of a loop.
struct Known {
    of: BTreeMap<ValueId, Depends>,
    /// The maximum, and what a step makes of it.
    frames: [ValueId; 2],
    /// The exponential that powers are of.
    power: Option<UnOp>,
}

impl Known {
    fn of(&mut self, expr: &Expr) -> Option<Depends> {
        Some(match expr {
            Expr::Get(value) => self.of.get(value).copied().unwrap_or(FREE),
            Expr::Const(x, _) if *x == 0.0 => Zero,
            Expr::Un(UnOp::Neg, a) => match self.of(a)? {
                Sum(c) => Sum(c.map(|c| -c)),
                other => other,
            },
            Expr::Un(UnOp::Abs, a) => match self.of(a)? {
                sum @ Sum(_) if sum != FREE => return None,
                other => other,
            },
            Expr::Un(op @ (UnOp::Exp | UnOp::Exp2), a) => match self.of(a)? {
                FREE | Zero => FREE,
                Sum(c) if self.is_power(*op) => Scaled(c.map(|c| -c)),
                _ => return None,
            },
            Expr::Un(UnOp::Log, a) => match self.of(a)? {
                FREE | Zero => FREE,
                Scaled(n) if self.is_power(UnOp::Exp) => Sum(n.map(|n| -n)),
                _ => return None,
            },
            Expr::Bin(BinOp::Add, a, b) => match (self.of(a)?, self.of(b)?) {
                (Sum(a), Sum(b)) => Sum([a[0] + b[0], a[1] + b[1]]),
                (a, b) => a.like(b)?,
            },
            Expr::Bin(BinOp::Sub, a, b) => match (self.of(a)?, self.of(b)?) {
                (Sum(a), Sum(b)) => Sum([a[0] - b[0], a[1] - b[1]]),
                (Zero, Sum(b)) => Sum(b.map(|c| -c)),
                (a, b) => a.like(b)?,
            },
            Expr::Bin(op @ (BinOp::Mul | BinOp::Div), a, b) => match (self.of(a)?, self.of(b)?) {
                (Zero, b) => b.scale().map(|_| Zero)?,
                (a, Zero) if *op == BinOp::Mul => a.scale().map(|_| Zero)?,
                (a, b) => {
                    let (a, b) = (a.scale()?, b.scale()?);
                    let sign = if *op == BinOp::Mul { 1 } else { -1 };
                    Depends::scaled([a[0] + sign * b[0], a[1] + sign * b[1]])
                }
            },
            // Powers are positive.
            Expr::Bin(BinOp::Max | BinOp::Min, a, b) => self.of(a)?.like(self.of(b)?)?,
            Expr::Cmp(_, a, b) => self.of(a)?.like(self.of(b)?).map(|_| FREE)?,
            Expr::Select(c, _, b) if self.never(c) => self.of(b)?,
            Expr::Select(c, a, b) => {
                (self.of(c)? == FREE).then_some(())?;
                self.of(a)?.like(self.of(b)?)?
            }
            // 8 bits hold no infinity: what is too large for them would not be seen.
            Expr::Cast(dtype, a) => match self.of(a)? {
                FREE | Zero => FREE,
                other if dtype.is_float() && *dtype != DType::F8 => other,
                _ => return None,
            },
            other => {
                let free = |v: &ValueId| self.of.get(v).is_none_or(|d| matches!(d, &FREE | Zero));
                other.values().iter().all(free).then_some(FREE)?
            }
        })
    }

    /// Whether a condition says that a frame is infinite: it is seen to that it is not.
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
}

impl Frozen {
    /// As a line of the plan.
    pub fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        let names = |values: &[ValueId]| {
            let names: Vec<&str> = values.iter().map(|v| &*nest.value(*v).name).collect();
            names.join(", ")
        };
        writeln!(
            out,
            "frozen {} in `{}`: without {}; again unless {} are finite",
            names(&[self.value]),
            nest.digit_name(self.digit),
            names(&self.unused),
            names(&self.sums)
        )
    }
}

fn is_infinite(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(x, _) if x.is_infinite())
}

/// What an expression is where that is finite.
fn finite(expr: &Expr) -> Option<&Expr> {
    let Expr::Select(c, _, x) = expr else { return None };
    let Expr::Cmp(CmpOp::Eq, a, b) = &**c else { return None };
    (a == x && is_infinite(b)).then_some(&**x)
}

impl Nest {
    /// The maxima that stay, or why they do not, in the order of the values.
    pub(crate) fn frozen_maxima(&self) -> Vec<Result<Frozen, Unfrozen>> {
        let of = |value: &ValueId| {
            let mut found = None;
            self.body.each(&mut |stmt| {
                if let Stmt::Let { values, first, rest } = stmt
                    && values.contains(value)
                    && found.is_none()
                {
                    found = Some(Frozen::of(self, values, first, rest, *value));
                }
            });
            found.unwrap_or(Err(Unfrozen::NotCarried(*value)))
        };
        self.frozen.iter().map(of).collect()
    }

    /// Names of the values that could stay.
    pub(crate) fn running_maxima(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.body.each(&mut |stmt| {
            if let Stmt::Let { values, first, rest } = stmt {
                let stays = |v: &&ValueId| Frozen::of(self, values, first, rest, **v).is_ok();
                found.extend(values.iter().filter(stays).map(|v| self.value(*v).name.clone()));
            }
        });
        found
    }

    /// The maximum that stays among the values of a `let`, if one does.
    pub(crate) fn frozen_of(&self, values: &[ValueId], first: &Stmt, rest: &Stmt) -> Option<Frozen> {
        let value = values.iter().find(|v| self.frozen.contains(v))?;
        Frozen::of(self, values, first, rest, *value).ok()
    }
}

/// A leaf as the analysis sees it: a guard that all changes of a step have in common is left out.
fn unguarded(stmt: &Stmt) -> Option<(&Expr, &Expr)> {
    let Stmt::Set { value, expr: Expr::Select(guard, new, old) } = stmt else { return None };
    (**old == Expr::Get(*value)).then_some((&**guard, &**new))
}

impl Frozen {
    fn of(
        nest: &Nest,
        values: &[ValueId],
        first: &Stmt,
        rest: &Stmt,
        value: ValueId,
    ) -> Result<Frozen, Unfrozen> {
        let Stmt::For { digit, at: LoopKind::Seq | LoopKind::Pipe(_), body } = first else {
            return Err(Unfrozen::NotCarried(value));
        };
        if digit.steps == Steps::Fixed(1) {
            return Err(Unfrozen::NotCarried(value));
        }
        if nest.cluster.is_some() {
            return Err(Unfrozen::Cluster(value));
        }
        if nest.pingpong.is_some() {
            return Err(Unfrozen::Turns(value));
        }
        let mut steps: Vec<&Stmt> = Vec::new();
        leaves(body, &mut |_, leaf| steps.push(leaf));
        let inside = body.bound_values();
        for leaf in &steps {
            match leaf.leaf() {
                Some((Target::Access(_), _)) => return Err(Unfrozen::Stores(value)),
                Some((Target::Value(v), _)) if !inside.contains(&v) && !values.contains(&v) => {
                    return Err(Unfrozen::Outside(value, v));
                }
                _ => {}
            }
        }
        let guards: Vec<_> = steps.iter().filter_map(|leaf| Some(unguarded(leaf)?.0)).collect();
        let sets = steps.iter().filter(|leaf| matches!(leaf, Stmt::Set { .. })).count();
        let guarded = guards.len() == sets && guards.iter().all(|guard| *guard == guards[0]);
        let written = |leaf: &'_ Stmt| -> Option<(Target, Expr)> {
            let (target, expr) = leaf.leaf()?;
            let new = unguarded(leaf).filter(|_| guarded).map(|(_, new)| new);
            Some((target, new.unwrap_or(expr).clone()))
        };
        let next = next(&steps, value, &written).ok_or(Unfrozen::NoMaximum(value))?;
        let sums: Vec<ValueId> = values.iter().copied().filter(|v| *v != value).collect();
        let (scales, power) = scales(&steps, (value, next), &sums, &written)
            .map_err(|target| Unfrozen::Depends(value, target))?;
        let scaled: Vec<ValueId> =
            sums.iter().zip(&scales).filter(|(_, n)| **n != 0).map(|(v, _)| *v).collect();
        for sum in &scaled {
            let of = nest.value(*sum);
            let starts = of.init.or(of.reduction.map(|op| f64::from(op.neutral())));
            if starts != Some(0.0) {
                return Err(Unfrozen::Start(value, *sum));
            }
            if of.placement != Placement::Register || nest.across.contains_key(sum) {
                return Err(Unfrozen::Held(value, *sum));
            }
        }
        let of = sums.iter().zip(&scales).map(|(v, n)| (*v, Depends::scaled([*n, 0])));
        let of = of.chain([(value, Sum([1, 0]))]).collect();
        let mut known = Known { of, frames: [value, next], power };
        let mut escaped = None;
        leaves(rest, &mut |_, leaf| {
            let (target, expr) = leaf.leaf().expect("a leaf");
            let depends = known.leaf(leaf, target, expr);
            let stored = matches!(target, Target::Access(_));
            if depends.is_none() || stored && !matches!(depends, Some(FREE | Zero)) {
                escaped = escaped.or(Some(target));
            }
        });
        if let Some(target) = escaped {
            return Err(Unfrozen::Depends(value, target));
        }
        let alike = |leaf: &&Stmt| match leaf {
            Stmt::Def { value: v, expr } if finite(expr) == Some(&Expr::Get(next)) => Some(*v),
            _ => None,
        };
        let next: Vec<ValueId> = [next].into_iter().chain(steps.iter().filter_map(alike)).collect();
        let ones = ones(&steps, value, &next);
        let left_out = next.iter().chain(&ones).copied().collect();
        let unused = unused(&steps, &inside, value, left_out);
        let produced = first.any(&|s| matches!(s, Stmt::For { digit, .. } if nest.produced.contains(digit)));
        Ok(Frozen { digit: *digit, value, next, ones, unused, sums: scaled, produced })
    }
}

impl Known {
    /// What a leaf leaves in what it writes; what it stores.
    fn leaf(&mut self, leaf: &Stmt, target: Target, expr: &Expr) -> Option<Depends> {
        let depends = self.of(expr)?;
        let Target::Value(v) = target else { return Some(depends) };
        let depends = match leaf {
            Stmt::Red { op, .. } => {
                let before = self.of.get(&v).copied().unwrap_or(Zero);
                let combines = matches!(op, RedOp::Add | RedOp::Max | RedOp::Min);
                if !combines && !matches!(depends, FREE | Zero) {
                    return None;
                }
                // Sums of what one frame adds to each term are no multiples of it.
                if *op == RedOp::Add && matches!(depends, Sum(c) if c != [0; 2]) {
                    return None;
                }
                before.like(depends)?
            }
            _ => depends,
        };
        self.of.insert(v, depends);
        Some(depends)
    }
}

/// What a step makes of the maximum: a value that is the greater of it and something.
fn next(
    steps: &[&Stmt],
    value: ValueId,
    written: &dyn Fn(&Stmt) -> Option<(Target, Expr)>,
) -> Option<ValueId> {
    let mut set = steps.iter().filter_map(|leaf| written(leaf)).filter(|(t, _)| *t == Target::Value(value));
    let (Some((_, Expr::Get(next))), None) = (set.next(), set.next()) else { return None };
    let mut defined = steps.iter().filter(|leaf| leaf.leaf().is_some_and(|(t, _)| t == Target::Value(next)));
    let (Some(Stmt::Def { expr: Expr::Bin(BinOp::Max, a, b), .. }), None) = (defined.next(), defined.next())
    else {
        return None;
    };
    [a, b].into_iter().any(|of| **of == Expr::Get(value)).then_some(next)
}

/// The powers of the frame that sums are multiples of, each the same after a step as before it; and of what.
fn scales(
    steps: &[&Stmt],
    (value, next): (ValueId, ValueId),
    sums: &[ValueId],
    written: &dyn Fn(&Stmt) -> Option<(Target, Expr)>,
) -> Result<(Vec<i32>, Option<UnOp>), Target> {
    /// Powers that are tried: of a sum, none, the weight itself and its square.
    const TRIED: i32 = 3;
    let mut why = Target::Value(value);
    let tries = (TRIED as usize).checked_pow(sums.len() as u32).unwrap_or(0);
    // Those with the weight itself first.
    for guess in 0..tries {
        let digit = |n: usize| (guess / (TRIED as usize).pow(n as u32)) as i32 % TRIED;
        let scales: Vec<i32> = (0..sums.len()).map(|n| (digit(n) + 1) % TRIED).collect();
        let of = sums.iter().zip(&scales).map(|(v, n)| (*v, Depends::scaled([*n, 0])));
        let mut known =
            Known { of: of.chain([(value, Sum([1, 0]))]).collect(), frames: [value, next], power: None };
        let wrong = steps.iter().find_map(|leaf| {
            let (target, expr) = written(leaf)?;
            if target == Target::Value(next) {
                // The other operand of the maximum does not depend on the frame.
                let Expr::Bin(_, a, b) = &expr else { return Some(target) };
                let other = if **a == Expr::Get(value) { b } else { a };
                let free = matches!(known.of(other), Some(FREE | Zero));
                known.of.insert(next, Sum([0, 1]));
                return (!free).then_some(target);
            }
            known.leaf(leaf, target, &expr).is_none().then_some(target)
        });
        let kept = sums.iter().zip(&scales).find(|(v, n)| {
            known.of.get(v).is_some_and(|after| !matches!(after, Zero) && *after != Depends::scaled([0, **n]))
        });
        match (wrong, kept) {
            (None, None) => return Ok((scales, known.power)),
            (wrong, kept) if guess == 0 => {
                why = wrong.or(kept.map(|(v, _)| Target::Value(*v))).unwrap_or(why);
            }
            _ => {}
        }
    }
    Err(why)
}

/// What is a power of the difference of both frames.
fn ones(steps: &[&Stmt], value: ValueId, next: &[ValueId]) -> Vec<ValueId> {
    let to = |next: &ValueId, expr: &Expr| {
        matches!(expr, Expr::Un(UnOp::Exp | UnOp::Exp2, of)
            if **of == Expr::Bin(BinOp::Sub, Box::new(Expr::Get(value)), Box::new(Expr::Get(*next))))
    };
    let is_one = |expr: &Expr| next.iter().any(|next| to(next, expr));
    let of = |leaf: &&Stmt| match leaf {
        Stmt::Def { value, expr } if is_one(expr) => Some(*value),
        _ => None,
    };
    steps.iter().filter_map(of).collect()
}

/// The values that are read for those alone that are not computed, with these.
fn unused(
    steps: &[&Stmt],
    inside: &BTreeSet<ValueId>,
    value: ValueId,
    mut unused: BTreeSet<ValueId>,
) -> Vec<ValueId> {
    loop {
        let more: Vec<ValueId> = inside
            .iter()
            .filter(|v| !unused.contains(v))
            .filter(|v| {
                steps.iter().filter(|leaf| leaf.leaf().is_some_and(|(_, e)| e.values().contains(v))).all(
                    |leaf| {
                        let (target, _) = leaf.leaf().expect("a leaf");
                        matches!(target, Target::Value(t) if t == value || t == **v || unused.contains(&t))
                    },
                )
            })
            .copied()
            .collect();
        if more.is_empty() {
            return unused.into_iter().collect();
        }
        unused.extend(more);
    }
}
