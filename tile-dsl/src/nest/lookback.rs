//! Loops whose steps CTAs share out, each of which is told what is known before its step (`lookback`).
//!
//! ```text
//! let before; for n { let part = .. in  y = f(before); before = before + part }
//! →
//! CTA of step t:  part = ..;  publish part;  before = sum of what the steps before have published;  publish before + part;  y = f(before)
//! ```
//! What steps publish is combined in any order of neighbours, so the state of the loop is a reduction of parts that need no state.
//! Source: Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back (NVIDIA, 2016).

use super::{AccessId, Digit, Expr, Frame, LoopKind, Nest, Stmt, Target, ValueId, leaves};
use crate::{dtype::DType, machine::Unit, op::RedOp};
use std::{collections::BTreeSet, fmt};

/// A loop whose steps CTAs share out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lookback {
    /// The loop.
    pub digit: Digit,
    /// What goes from step to step, in the order in which it is known.
    pub states: Vec<State>,
}

/// A state that goes from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct State {
    /// What is known before a step.
    pub value: ValueId,
    /// What a step adds.
    pub part: ValueId,
    /// How.
    pub op: RedOp,
}

/// Why the steps of a loop cannot be shared out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NoLookback {
    /// Its steps are taken by units, at once, or ahead.
    Taken(Digit, LoopKind),
    /// It stands more than once, or inside of another loop.
    Inside(Digit),
    /// Points of its axis are left out.
    Limited(Digit),
    /// Nothing goes from step to step.
    Stateless(Digit),
    /// A directive shares out tiles in another way.
    Beside(&'static str),
    /// A value is added up over its steps as a whole.
    Summed(ValueId, Digit),
    /// The state is no reduction of parts.
    Form(ValueId),
    /// It is not of 32 bits.
    Bits(ValueId),
    /// A CTA has several elements of it.
    Several(ValueId, Digit),
    /// The part needs a state.
    Needs(ValueId, ValueId),
    /// This reads the state before the part is known.
    Early(State, Target),
    /// What is stored outside of the loop does not wait for it.
    Outside(AccessId, Digit),
    /// The part is no register of each thread.
    Shared(ValueId),
    /// A CTA has no whole warp.
    Threads(u64),
}

impl NoLookback {
    /// In words.
    pub fn text(&self, nest: &Nest) -> String {
        let (name, digit) = (|v: &ValueId| &nest.value(*v).name, |d: &Digit| nest.digit_name(*d));
        match self {
            NoLookback::Taken(d, LoopKind::Pipe(_)) => {
                format!("copies run ahead of the steps of `{}`, and a CTA has one step", digit(d))
            }
            NoLookback::Taken(d, _) => {
                format!("`lookback` shares out a plain loop, and `{}` is bound or unrolled", digit(d))
            }
            NoLookback::Inside(d) => format!("the loop over `{}` is not the only one of a CTA", digit(d)),
            NoLookback::Limited(d) => format!("not all points of `{}` count", nest.axis(d.axis)),
            NoLookback::Stateless(d) => {
                format!("nothing goes from one step of `{}` to the next: CTAs need not look back", digit(d))
            }
            NoLookback::Beside(what) => format!("`{what}` gives CTAs other work than steps in their order"),
            NoLookback::Summed(v, d) => format!(
                "`{}` is added up over all steps of `{}`, not carried from each to the next",
                name(v),
                digit(d)
            ),
            NoLookback::Form(v) => format!(
                "`{0}` is not `{0} + part`, nor a maximum or a minimum of itself and a part: what steps publish could not be combined",
                name(v)
            ),
            NoLookback::Bits(v) => format!(
                "`{}` is {}: steps publish 32 bits, of `f32`, `i32` or `u32`",
                name(v),
                nest.value(*v).dtype
            ),
            NoLookback::Several(v, d) => {
                format!("a CTA has several elements of `{}`, along `{}`: it publishes one", name(v), digit(d))
            }
            NoLookback::Needs(part, state) => format!(
                "`{}` needs `{}`: a step could not publish its part before it knows what is before",
                name(part),
                name(state)
            ),
            NoLookback::Early(state, target) => {
                let by = match target {
                    Target::Value(value) => name(value).clone(),
                    Target::Access(access) => nest.tensor(nest.access(*access).tensor).name.clone(),
                };
                let (state, part) = (name(&state.value), name(&state.part));
                format!("`{by}` reads `{state}` before `{part}` is known: a step publishes its part first")
            }
            NoLookback::Outside(access, d) => format!(
                "`{}` is stored outside of the loop over `{}`, and not from what it ends with: every CTA would store it",
                nest.tensor(nest.access(*access).tensor).name,
                digit(d)
            ),
            NoLookback::Shared(v) => {
                format!(
                    "`{}` is held in shared memory, and what a step publishes comes from registers",
                    name(v)
                )
            }
            NoLookback::Threads(n) => format!("a warp looks back, and a CTA has {n} threads"),
        }
    }
}

impl Lookback {
    /// Whether a `let` of these values has a state, so that what reads it behind the loop is of the loop's end.
    pub fn ends_with(&self, values: &[ValueId]) -> bool {
        self.states.iter().any(|state| values.contains(&state.value))
    }

    pub(crate) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        let state = |s: &State| {
            let (value, part) = (&nest.value(s.value).name, &nest.value(s.part).name);
            format!("{value} by the {} of {part}", s.op.name())
        };
        let states: Vec<String> = self.states.iter().map(state).collect();
        writeln!(out, "lookback in `{}`: {}", nest.digit_name(self.digit), states.join(", "))
    }
}

/// A leaf and what is around it.
struct Leaf<'n> {
    path: Vec<Frame>,
    stmt: &'n Stmt,
    /// The position of the loop in the path.
    inside: Option<usize>,
}

impl Leaf<'_> {
    fn target(&self) -> Option<Target> {
        self.stmt.leaf().map(|(target, _)| target)
    }

    fn expr(&self) -> &Expr {
        self.stmt.leaf().expect("a leaf").1
    }

    fn reads(&self, value: ValueId) -> bool {
        self.expr().values().contains(&value)
    }

    /// Where in the path the first part of a value's `let` is.
    fn first_of(&self, value: ValueId) -> Option<usize> {
        self.path.iter().position(|f| matches!(f, Frame::First(values) if values.contains(&value)))
    }
}

impl Nest {
    /// The loop whose steps CTAs share out, if there is one, or why they cannot.
    pub(crate) fn looks_back(&self) -> Option<Result<Lookback, NoLookback>> {
        self.lookback.map(|digit| looks_back(self, digit))
    }
}

fn looks_back(nest: &Nest, digit: Digit) -> Result<Lookback, NoLookback> {
    let beside = [
        (nest.persistent.is_some(), "persistent"),
        (nest.cluster.is_some(), "cluster"),
        (!nest.across.is_empty(), "split_k"),
        (nest.pingpong.is_some(), "pingpong"),
        (nest.producer.is_some(), "produce"),
        (nest.segment.is_some(), "segment"),
        // It may take a tile twice, and a ticket with it.
        (!nest.frozen.is_empty(), "freeze"),
    ];
    if let Some((_, what)) = beside.into_iter().find(|(holds, _)| *holds) {
        return Err(NoLookback::Beside(what));
    }
    if nest.limits.contains_key(&digit.axis) {
        return Err(NoLookback::Limited(digit));
    }
    let is_loop = |f: &Frame| matches!(f, Frame::For(d, _) if *d == digit);
    let mut all: Vec<Leaf<'_>> = Vec::new();
    leaves(&nest.body, &mut |path, stmt| {
        all.push(Leaf { path: path.to_vec(), stmt, inside: path.iter().position(is_loop) });
    });
    let mut loops = 0;
    nest.body
        .each(&mut |stmt| loops += usize::from(matches!(stmt, Stmt::For { digit: d, .. } if *d == digit)));
    let Some((leaf, at)) = all.iter().find_map(|leaf| Some((leaf, leaf.inside?))) else {
        return Err(NoLookback::Stateless(digit));
    };
    if let Frame::For(_, kind) = leaf.path[at]
        && kind != LoopKind::Seq
    {
        return Err(NoLookback::Taken(digit, kind));
    }
    let of_ctas =
        |f: &Frame| !matches!(f, Frame::For(_, kind) if !matches!(kind, LoopKind::Unit(Unit::Block, _)));
    if loops != 1 || !leaf.path[..at].iter().all(of_ctas) {
        return Err(NoLookback::Inside(digit));
    }
    let states = states(nest, digit, &all)?;
    if states.is_empty() {
        return Err(NoLookback::Stateless(digit));
    }
    order(&all, &states)?;
    stores(digit, &all, &states)?;
    Ok(Lookback { digit, states })
}

/// What goes from step to step.
fn states(nest: &Nest, digit: Digit, all: &[Leaf<'_>]) -> Result<Vec<State>, NoLookback> {
    let mut states: Vec<State> = Vec::new();
    for leaf in all {
        let (Some(at), Some(Target::Value(value))) = (leaf.inside, leaf.target()) else { continue };
        if leaf.first_of(value).is_none_or(|first| first > at) {
            continue;
        }
        let Stmt::Set { expr, .. } = leaf.stmt else { return Err(NoLookback::Summed(value, digit)) };
        let part = |a: &Expr, b: &Expr| match (a, b) {
            (Expr::Get(a), Expr::Get(b)) if *a == value && *b != value => Some(*b),
            _ => None,
        };
        let formed = match expr {
            Expr::Bin(op, a, b) => {
                let op = RedOp::combined_by(*op);
                op.zip(part(a, b).or_else(|| part(b, a)))
            }
            _ => None,
        };
        let Some((op, part)) = formed.filter(|_| states.iter().all(|s| s.value != value)) else {
            return Err(NoLookback::Form(value));
        };
        if !matches!(nest.value(value).dtype, DType::F32 | DType::I32 | DType::U32) {
            return Err(NoLookback::Bits(value));
        }
        let inner = leaf.path[at + 1..].iter().find_map(Frame::step);
        if let Some((inner, _)) = inner {
            return Err(NoLookback::Several(value, inner));
        }
        // What a step adds is a value of the step, of one element a CTA.
        let makes = all.iter().find_map(|leaf| Some((leaf, leaf.inside?, leaf.first_of(part)?)));
        let Some((leaf, at, first)) = makes.filter(|(_, at, first)| first > at) else {
            return Err(NoLookback::Form(value));
        };
        if let Some((inner, _)) = leaf.path[at + 1..first].iter().find_map(Frame::step) {
            return Err(NoLookback::Several(part, inner));
        }
        states.push(State { value, part, op });
    }
    // In the order in which the parts are known.
    let known = |part: ValueId| all.iter().rposition(|leaf| leaf.first_of(part).is_some());
    states.sort_by_key(|state| known(state.part));
    Ok(states)
}

/// Parts need no state, and states are read behind them.
fn order(all: &[Leaf<'_>], states: &[State]) -> Result<(), NoLookback> {
    for state in states {
        let (mut seen, mut open) = (BTreeSet::new(), vec![state.part]);
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            if let Some(of) = states.iter().find(|s| s.value == value) {
                return Err(NoLookback::Needs(state.part, of.value));
            }
            let writes = all.iter().filter(|leaf| leaf.target() == Some(Target::Value(value)));
            writes.for_each(|leaf| open.extend(leaf.expr().values()));
        }
        let known = all.iter().rposition(|leaf| leaf.first_of(state.part).is_some());
        let before = all.iter().enumerate().filter(|(n, leaf)| leaf.inside.is_some() && Some(*n) <= known);
        for (_, leaf) in before {
            if let (true, Some(target)) = (leaf.reads(state.value), leaf.target()) {
                return Err(NoLookback::Early(*state, target));
            }
        }
    }
    Ok(())
}

/// What is stored outside of the loop is of its end. (No step reads what another one stores: the language has no such kernels.)
fn stores(digit: Digit, all: &[Leaf<'_>], states: &[State]) -> Result<(), NoLookback> {
    for leaf in all.iter().filter(|leaf| leaf.inside.is_none()) {
        let Some(Target::Access(access)) = leaf.target() else { continue };
        let of_a_state = |values: &[ValueId]| states.iter().any(|s| values.contains(&s.value));
        if !leaf.path.iter().any(|f| matches!(f, Frame::Rest(values) if of_a_state(values))) {
            return Err(NoLookback::Outside(access, digit));
        }
    }
    Ok(())
}

/// The same loop, whose steps know what they add before they read what is before them: the `let` of a part is moved to where all is
/// known that it needs. It passes no store to what it loads: the language has no load of what a step has stored before.
pub(crate) fn parts_first(nest: &Nest, digit: Digit) -> Stmt {
    let mut body = nest.body.clone();
    let mut all: Vec<ValueId> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        if let Stmt::Set { value, expr } = leaf
            && path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == digit))
        {
            all.extend(expr.values().into_iter().filter(|v| v != value));
        }
    });
    in_loop(&mut body, digit, &mut |step| {
        for part in &all {
            let Some((values, first)) = taken(step, *part) else { continue };
            let mut reads = BTreeSet::new();
            leaves(&first, &mut |_, leaf| reads.extend(leaf.leaf().expect("a leaf").1.values()));
            if let Some(others) = without(step, *part) {
                *step = placed(others, &values, first, &reads);
            }
        }
    });
    body
}

fn in_loop(stmt: &mut Stmt, digit: Digit, edit: &mut dyn FnMut(&mut Stmt)) {
    match stmt {
        Stmt::For { digit: d, body, .. } if *d == digit => edit(body),
        Stmt::For { body, .. } | Stmt::Stage { body, .. } => in_loop(body, digit, edit),
        Stmt::Let { first, rest, .. } => {
            in_loop(first, digit, edit);
            in_loop(rest, digit, edit);
        }
        _ => {}
    }
}

/// The first part of the `let` of a value among those that a step begins with.
fn taken(step: &Stmt, part: ValueId) -> Option<(Vec<ValueId>, Stmt)> {
    match step {
        Stmt::Stage { body, .. } => taken(body, part),
        Stmt::Let { values, first, .. } if values.contains(&part) => {
            Some((values.clone(), (**first).clone()))
        }
        Stmt::Let { rest, .. } => taken(rest, part),
        _ => None,
    }
}

/// A step without that `let`.
fn without(step: &Stmt, part: ValueId) -> Option<Stmt> {
    Some(match step {
        Stmt::Stage { copy, body } => Stmt::Stage { copy: *copy, body: Box::new(without(body, part)?) },
        Stmt::Let { values, rest, .. } if values.contains(&part) => (**rest).clone(),
        Stmt::Let { values, first, rest } => {
            Stmt::Let { values: values.clone(), first: first.clone(), rest: Box::new(without(rest, part)?) }
        }
        _ => return None,
    })
}

/// A step with it, as soon as everything that it reads is known.
fn placed(step: Stmt, values: &[ValueId], own: Stmt, reads: &BTreeSet<ValueId>) -> Stmt {
    match step {
        Stmt::Stage { copy, body } => Stmt::Stage { copy, body: Box::new(placed(*body, values, own, reads)) },
        Stmt::Let { values: known, first, rest } if needs(&known, &rest, reads) => {
            Stmt::Let { values: known, first, rest: Box::new(placed(*rest, values, own, reads)) }
        }
        step => Stmt::Let { values: values.to_vec(), first: Box::new(own), rest: Box::new(step) },
    }
}

/// Whether something that is read is known behind this `let` only, or behind one that follows.
fn needs(known: &[ValueId], rest: &Stmt, reads: &BTreeSet<ValueId>) -> bool {
    known.iter().any(|v| reads.contains(v))
        || match rest {
            Stmt::Stage { .. } => true,
            Stmt::Let { values, rest, .. } => needs(values, rest, reads),
            _ => false,
        }
}
