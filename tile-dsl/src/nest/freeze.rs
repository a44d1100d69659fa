//! Running maxima that stay as the first step leaves them (`freeze`).
//!
//! ```text
//! for j { top = max(m, max(s)); p = 2^(s - top); a = 2^(m - top); l = l·a + Σp; o = o·a + p·v; m = top }; out = o / l
//! →
//! the first step as above, the others: p = 2^(s - m); l = l + Σp; o = o + p·v
//! if some l or o is not finite: the tile again, as above
//! ```
//! The maximum is a *frame*: sums are multiples of 2^-m, and what is stored is the same in every frame. In a frame that is too low
//! a sum overflows, and then it stays infinite or becomes NaN: that is seen at the end, as is a frame that is infinite. In one that is too high the terms that are
//! lost are below 2^-126 of one that is in the sum.
//!
//! Numbers of 8 bits have no infinity: a weight that is too large would become the largest of them, and the sums look right. A sum of
//! such weights in a step is at least as large as each of them. So the greatest of those sums has to be a number of that type.
//!
//! What depends on the frame, and how, is worked out for each value ([`depends`]).
//! Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), for the sums.

mod depends;

use super::{Digit, Expr, LoopKind, Nest, Placement, Steps, Stmt, Target, ValueId, leaves};
use crate::{
    dtype::DType,
    op::{BinOp, CmpOp, RedOp, UnOp},
    tile::TensorId,
};
use depends::{
    At, Depends,
    Depends::{Scaled, Sum},
    Known, is_infinite,
};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Sums of a step's powers that become numbers of a type without infinities: where the frame is good enough, these are numbers of it.
    pub narrow: Vec<(ValueId, DType)>,
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
    /// This sum, or the maximum, is not f32 in registers, or CTAs share it.
    Held(ValueId, ValueId),
    /// The kernel reads what it stores in this, or combines it with what is there.
    Once(ValueId, TensorId),
    /// Powers become numbers of a type without infinities, and no sum of a step is of them.
    Narrow(ValueId, DType),
    /// CTAs bring this together, each with its part.
    Across(ValueId, ValueId),
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
            | Unfrozen::Once(v, _)
            | Unfrozen::Narrow(v, _)
            | Unfrozen::Across(v, _)
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
                    "`{target}` would be another one: it is neither a sum of `exp2(x - {own})` or the like, nor a quotient of such sums, nor `{own}` plus the logarithm of one to the same base"
                )
            }
            Unfrozen::Start(_, sum) => format!("`{}` starts at another number than 0", name(sum)),
            Unfrozen::Stores(_) => "its loop stores, and a tile may be computed twice".into(),
            Unfrozen::Outside(_, other) => {
                format!("its loop changes `{}` too, which starts further out", name(other))
            }
            Unfrozen::Held(_, sum) => {
                format!("`{}` is not f32 in the registers of the threads of one CTA", name(sum))
            }
            Unfrozen::Once(_, tensor) => format!(
                "a tile may be computed twice, and what the kernel stores in `{}` depends on what is there",
                nest.tensor(*tensor).name
            ),
            Unfrozen::Narrow(_, dtype) => format!(
                "powers become {dtype}, which has no infinity: one that is too large would not be seen, as no `sum(..)` of a step is of these powers alone"
            ),
            Unfrozen::Across(_, other) => {
                format!(
                    "CTAs bring parts of `{}` together, and one of them may compute its tile twice",
                    name(other)
                )
            }
            Unfrozen::Cluster(_) => {
                "CTAs of a cluster copy for one another, and one of them may compute its tile twice".into()
            }
            Unfrozen::Turns(_) => "groups take turns, and one of them may compute its tile twice".into(),
        };
        format!("`{own}` cannot stay as the first step leaves it: {why}")
    }
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

    /// A tensor in which is stored what depends on what is there: a tile cannot be computed twice.
    fn stored_upon(&self) -> Option<TensorId> {
        let mut stored = BTreeSet::new();
        let mut read = BTreeSet::new();
        let mut combined = None;
        leaves(&self.body, &mut |_, leaf| {
            let Some((target, expr)) = leaf.leaf() else { return };
            if let Target::Access(access) = target {
                let access = self.access(access);
                stored.insert(access.tensor);
                if access.combines.is_some() {
                    combined.get_or_insert(access.tensor);
                }
            }
            read.extend(expr.accesses().into_iter().map(|access| self.access(access).tensor));
        });
        combined.or_else(|| stored.intersection(&read).next().copied())
    }

    /// Names of the values that could stay: running maxima of what a loop carries.
    pub fn running_maxima(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.body.each(&mut |stmt| {
            if let Stmt::Let { values, first, rest } = stmt {
                let stays = |v: &&ValueId| Frozen::of(self, values, first, rest, **v).is_ok();
                found.extend(values.iter().filter(stays).map(|v| self.value(*v).name.clone()));
            }
        });
        found
    }
}

/// The leaves of a step. Where limits say that a row has no points in it, all that it would change stays as it is.
struct Step<'n> {
    leaves: Vec<&'n Stmt>,
    /// What limits say, where each change of what is carried depends on it.
    guard: Option<&'n Expr>,
}

impl<'n> Step<'n> {
    fn of(nest: &Nest, digit: Digit, leaves: Vec<&'n Stmt>) -> Step<'n> {
        let sets = || leaves.iter().filter(|leaf| matches!(leaf, Stmt::Set { .. }));
        let guard = |leaf: &&'n Stmt| match *leaf {
            Stmt::Set { value, expr: Expr::Select(guard, _, old) } if **old == Expr::Get(*value) => {
                Some(&**guard)
            }
            _ => None,
        };
        // Nobody writes ends of tiles: they are in what limits mean, which masks all else of such a row, too.
        let by_limits = |guard: &&Expr| {
            let mut ends = false;
            guard.visit(&mut |e| ends |= matches!(e, Expr::Edge(axis, _) if *axis == digit.axis));
            ends && nest.limits.contains_key(&digit.axis)
        };
        let first = sets().next().and_then(guard).filter(by_limits);
        let guard = first.filter(|first| sets().all(|leaf| guard(leaf) == Some(first)));
        Step { leaves, guard }
    }

    /// What a leaf writes where the row has points.
    fn written(&self, leaf: &'n Stmt) -> (Target, &'n Expr) {
        let (target, expr) = leaf.leaf().expect("a leaf");
        match (leaf, expr) {
            (Stmt::Set { .. }, Expr::Select(guard, new, _)) if self.guard == Some(&**guard) => (target, new),
            _ => (target, expr),
        }
    }

    /// What a step makes of a maximum: a value that is the greater of it and something.
    fn next(&self, value: ValueId) -> Option<ValueId> {
        let of = |target: ValueId| {
            let all = self.leaves.iter().map(|leaf| (*leaf, self.written(leaf)));
            let mut found = all.filter(move |(_, (t, _))| *t == Target::Value(target));
            found.next().filter(|_| found.next().is_none())
        };
        let (_, (_, Expr::Get(next))) = of(value)? else { return None };
        let (Stmt::Def { expr: Expr::Bin(BinOp::Max, a, b), .. }, _) = of(*next)? else { return None };
        [a, b].into_iter().any(|of| **of == Expr::Get(value)).then_some(*next)
    }

    /// For what becomes a number of a type without infinities, the sum that is at least as large as each: of the powers that a step defines, over all of them. Otherwise the type.
    fn narrow(&self, narrow: &[(Expr, DType)]) -> Result<Vec<(ValueId, DType)>, DType> {
        let is_power = |of: &Expr| {
            let Expr::Get(power) = of else { return false };
            let written = |target: Target| target == Target::Value(*power);
            let mut defs = self.leaves.iter().filter(|leaf| leaf.leaf().is_some_and(|(t, _)| written(t)));
            let first = defs.next().copied();
            matches!(first, Some(Stmt::Def { expr: Expr::Un(UnOp::Exp | UnOp::Exp2, _), .. }) if defs.next().is_none())
        };
        let sum = |of: &Expr| {
            self.leaves.iter().find_map(|leaf| match leaf {
                Stmt::Red { value: sum, op: RedOp::Add, expr } if expr == of => Some(*sum),
                _ => None,
            })
        };
        let mut found: Vec<(ValueId, DType)> = Vec::new();
        for (of, dtype) in narrow {
            let sum = Some(of).filter(|of| is_power(of)).and_then(sum).ok_or(*dtype)?;
            if !found.contains(&(sum, *dtype)) {
                found.push((sum, *dtype));
            }
        }
        Ok(found)
    }

    /// What is known of the sums, each the same after a step as before it; otherwise what it is not known of.
    fn sums<'a>(&self, nest: &'a Nest, frames: [ValueId; 2], sums: &[ValueId]) -> Result<Known<'a>, Target> {
        /// The powers that a sum may be scaled by: those of the weights, none, those of their squares.
        const TRIED: [i32; 3] = [1, 0, 2];
        let mut scales: BTreeMap<ValueId, i32> = sums.iter().map(|sum| (*sum, TRIED[0])).collect();
        // One sum may be added to another.
        for sum in sums.iter().chain(sums) {
            let fits = TRIED.into_iter().find(|scale| {
                scales.insert(*sum, *scale);
                kept(&self.taken(nest, frames, &scales).0, *sum, *scale)
            });
            scales.insert(*sum, fits.unwrap_or(TRIED[0]));
        }
        let (after, wrong) = self.taken(nest, frames, &scales);
        let lost =
            || sums.iter().find(|sum| !kept(&after, **sum, scales[*sum])).map(|sum| Target::Value(*sum));
        match wrong.or_else(lost) {
            Some(target) => Err(target),
            None => Ok(Known { of: before(frames[0], &scales), ..after }),
        }
    }

    /// What is known behind a step, of sums that are scaled so; the first leaf that nothing is known of.
    fn taken<'a>(
        &self,
        nest: &'a Nest,
        frames: [ValueId; 2],
        scales: &BTreeMap<ValueId, i32>,
    ) -> (Known<'a>, Option<Target>) {
        let of = before(frames[0], scales);
        let mut known = Known { nest, at: At::Loop, of, frames, power: None, narrow: Vec::new() };
        let mut wrong = None;
        for leaf in &self.leaves {
            let (target, expr) = self.written(leaf);
            let guarded = self.guard.filter(|_| matches!(leaf, Stmt::Set { .. }));
            let mut right = guarded.is_none_or(|guard| known.of(guard).is_some_and(Depends::is_free));
            match expr {
                // The other operand of the maximum does not depend on it.
                Expr::Bin(BinOp::Max, a, b) if target == Target::Value(frames[1]) => {
                    let other = if **a == Expr::Get(frames[0]) { b } else { a };
                    right &= known.of(other).is_some_and(Depends::is_free);
                    known.of.insert(frames[1], Some(Sum([0, 1])));
                }
                _ => right &= known.leaf(leaf, (target, expr)).is_some(),
            }
            wrong = wrong.or((!right).then_some(target));
        }
        (known, wrong)
    }
}

/// What is known before a step.
fn before(value: ValueId, scales: &BTreeMap<ValueId, i32>) -> BTreeMap<ValueId, Option<Depends>> {
    let sums = scales.iter().map(|(sum, n)| (*sum, Some(Depends::scaled([*n, 0]))));
    sums.chain([(value, Some(Sum([1, 0])))]).collect()
}

/// Whether a sum is scaled by the new maximum after a step as by the old one before it.
fn kept(after: &Known<'_>, sum: ValueId, scale: i32) -> bool {
    after
        .of
        .get(&sum)
        .is_some_and(|of| *of == Some(Depends::scaled([0, scale])) || *of == Some(Depends::Zero))
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
        if let Some(tensor) = nest.stored_upon() {
            return Err(Unfrozen::Once(value, tensor));
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
        let step = Step::of(nest, *digit, steps);
        let next = step.next(value).ok_or(Unfrozen::NoMaximum(value))?;
        let sums: Vec<ValueId> = values.iter().copied().filter(|v| *v != value).collect();
        let known =
            step.sums(nest, [value, next], &sums).map_err(|target| Unfrozen::Depends(value, target))?;
        let is_scaled = |v: &&ValueId| known.of.get(v).is_some_and(|of| matches!(of, Some(Scaled(_))));
        let scaled: Vec<ValueId> = sums.iter().filter(is_scaled).copied().collect();
        let narrow = step.narrow(&known.narrow).map_err(|dtype| Unfrozen::Narrow(value, dtype))?;
        let in_registers = |of: ValueId| {
            let value = nest.value(of);
            let own = value.dtype == DType::F32 && value.placement == Placement::Register;
            own && !nest.across.contains_key(&of)
        };
        if let Some((sum, _)) = narrow.iter().find(|(sum, _)| !in_registers(*sum)) {
            return Err(Unfrozen::Held(value, *sum));
        }
        for sum in scaled.iter().chain([&value]) {
            let of = nest.value(*sum);
            let starts = of.init.or(of.reduction.map(|op| f64::from(op.neutral())));
            if *sum != value && starts != Some(0.0) {
                return Err(Unfrozen::Start(value, *sum));
            }
            if !in_registers(*sum) {
                return Err(Unfrozen::Held(value, *sum));
            }
        }
        if let Some(other) = nest.across.keys().next() {
            return Err(Unfrozen::Across(value, *other));
        }
        let mut known = Known { at: At::Behind, ..known };
        let mut escaped = None;
        leaves(rest, &mut |_, leaf| {
            let written = leaf.leaf().expect("a leaf");
            let depends = known.leaf(leaf, written);
            let stored = matches!(written.0, Target::Access(_));
            if depends.is_none_or(|depends| stored && !depends.is_free()) {
                escaped = escaped.or(Some(written.0));
            }
        });
        if let Some(target) = escaped {
            return Err(Unfrozen::Depends(value, target));
        }
        let steps = step.leaves;
        let alike = |leaf: &&Stmt| match leaf {
            Stmt::Def { value: v, expr } if finite(expr) == Some(&Expr::Get(next)) => Some(*v),
            _ => None,
        };
        let next: Vec<ValueId> = [next].into_iter().chain(steps.iter().filter_map(alike)).collect();
        let ones = ones(&steps, value, &next);
        let left_out = next.iter().chain(&ones).copied().collect();
        let unused = unused(&steps, &inside, value, left_out);
        let produced = first.any(&|s| matches!(s, Stmt::For { digit, .. } if nest.produced.contains(digit)));
        Ok(Frozen { digit: *digit, value, next, ones, unused, sums: scaled, narrow, produced })
    }
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
