//! `split`: one loop becomes a chain of loops over digits of the same axis.
//!
//! ```text
//! (for a.s.n t X)  →  (for a.(s·f).⌈n/f⌉ t (for a.s.f t X))
//! ```
//! The value of the axis is Σ digit · stride on both sides, so `X` is untouched.
//! A digit of one step adds 0. It gets a loop all the same, which other directives can name:
//!
//! ```text
//! (for a X)  ⇔  (for a.1 (for a X))  ⇔  (for a (for a.1 X))
//! ```
//!
//! Side condition: f divides n, unless the digit is the axis' outermost, where surplus points lie beyond the
//! extent and are guarded. An inner digit with surplus steps would visit points of its neighbour again.
//! Source: strip-mining (Wolfe 1989); "digits" after mixed-radix notation.

use super::{Failure, Proof, Rule, solve, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        facts::{Graph, at, digit},
        language::Node,
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    nest::{Digit, LoopKind, Nest, Steps, Stmt, loops},
    span::SpanId,
};

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    ONE = "(for ?#3 ?#1 ?#2)";
    TWO = "(for ?#3 ?#1 (for ?#4 ?#1 ?#2))";
    THREE = "(for ?#3 ?#1 (for ?#4 ?#1 (for ?#5 ?#1 ?#2)))";
    FOUR = "(for ?#3 ?#1 (for ?#4 ?#1 (for ?#5 ?#1 (for ?#6 ?#1 ?#2))))";
}

/// Factors that a message lists.
const MOST_LISTED: usize = 16;

/// The numbers that divide another, ascending.
pub(crate) fn divisors(n: u32) -> Vec<u32> {
    let small = (1..).take_while(|d: &u32| u64::from(*d) * u64::from(*d) <= n.into());
    let small: Vec<u32> = small.filter(|d| n.is_multiple_of(*d)).collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| !small.contains(d));
    small.iter().copied().chain(large).collect()
}

/// Most digits that one `split` gives.
const MOST: usize = 4;

/// Rewrites the loop over `whole` into loops over `parts` (1 to 4), outermost first.
pub(crate) fn rule(whole: Digit, parts: Vec<Digit>) -> Rule<'static> {
    let after = [&ONE, &TWO, &THREE, &FOUR][parts.len() - 1];
    Rule::new("split", &LOOP, after, move |graph, subst| {
        if digit(graph, get(subst, 0)) != whole || at(graph, get(subst, 1)) != LoopKind::Seq {
            return Verdict::Skip;
        }
        for (n, part) in parts.iter().enumerate() {
            let id = graph.add(Node::Digit(*part));
            set(subst, n as u32 + 3, id);
        }
        Verdict::Apply
    })
}

/// Puts a loop over `single`, a digit of one step, around each loop over `at`.
pub(crate) fn around(stmt: &Stmt, single: Digit, at: Digit) -> Stmt {
    wrap(stmt, at, &|digit, how, body| {
        let inner = Stmt::For { digit, at: how, body: Box::new(body) };
        Stmt::For { digit: single, at: LoopKind::Seq, body: Box::new(inner) }
    })
}

/// As [`around`], where no loop over `single` stands around or inside already.
pub(crate) fn around_once(stmt: &Stmt, single: Digit, at: Digit) -> Stmt {
    match stmt {
        Stmt::For { digit, .. } if *digit == single => stmt.clone(),
        // The loops of an instruction stand together.
        Stmt::For { at: LoopKind::Atom(..), .. } => stmt.clone(),
        Stmt::For { digit, .. } if *digit == at && !loops(stmt).iter().any(|(d, _)| *d == single) => {
            Stmt::For { digit: single, at: LoopKind::Seq, body: Box::new(stmt.clone()) }
        }
        other => other.map(&mut |part| around_once(part, single, at)),
    }
}

/// Puts a loop over `single`, a digit of one step, directly inside each loop over `at`.
pub(crate) fn inside(stmt: &Stmt, single: Digit, at: Digit) -> Stmt {
    wrap(stmt, at, &|digit, how, body| {
        let inner = Stmt::For { digit: single, at: LoopKind::Seq, body: Box::new(body) };
        Stmt::For { digit, at: how, body: Box::new(inner) }
    })
}

fn wrap(stmt: &Stmt, wanted: Digit, build: &dyn Fn(Digit, LoopKind, Stmt) -> Stmt) -> Stmt {
    match stmt {
        Stmt::For { digit, at, body } if *digit == wanted => build(*digit, *at, wrap(body, wanted, build)),
        other => other.map(&mut |part| wrap(part, wanted, build)),
    }
}

/// `split(name -> names: factors)`.
pub(crate) fn apply(
    nest: &Nest,
    name: &str,
    new: &[String],
    factors: &[u32],
) -> Result<(Nest, Proof), Failure> {
    if new.len() > MOST {
        return Err(Failure::no_match(format!(
            "split of `{name}` gives {} names: {MOST} are the most",
            new.len()
        )));
    }
    if new.len() != factors.len() + 1 || factors.is_empty() {
        return Err(Failure::no_match(format!(
            "split of `{name}` gives {} names and {} factors: each name but the first needs a factor",
            new.len(),
            factors.len()
        )));
    }
    let whole = names::existing(nest, name, Bare::InTile)?;
    for (n, fresh) in new.iter().enumerate() {
        if nest.names.contains_key(fresh) || new[..n].contains(fresh) {
            return Err(Failure::no_match(format!("`{fresh}` already names a loop")));
        }
    }
    let product = divides(nest, name, whole, new, factors)?;
    let (mut names, mut parts, mut rest) = (nest.names.clone(), Vec::new(), whole);
    for (name, factor) in new[1..].iter().zip(factors).rev() {
        let (outer, inner) = rest.cut(*factor);
        names.insert(name.clone(), inner);
        parts.insert(0, inner);
        rest = outer;
    }
    names.insert(new[0].clone(), rest);
    parts.insert(0, rest);
    // Digits of one step are put beside the others, each once.
    let (mut split, mut outside, mut within): (Vec<Digit>, Vec<(Digit, Digit)>, Vec<Digit>) =
        Default::default();
    let several = parts.iter().any(|d| d.steps != Steps::Fixed(1));
    let known: Vec<Digit> = loops(&nest.body).into_iter().map(|(d, _)| d).collect();
    let mut singles: Vec<Digit> = Vec::new();
    for part in &parts {
        if part.steps != Steps::Fixed(1) || !several && *part == whole {
            outside.extend(singles.drain(..).map(|single| (single, *part)));
            split.push(*part);
        } else if !singles.contains(part) && !known.contains(part) {
            singles.push(*part);
        }
    }
    match split.last() {
        Some(_) => within.extend(singles),
        None => outside.extend(singles.into_iter().map(|single| (single, whole))),
    }
    let innermost = split.last().copied().unwrap_or(whole);
    let beside = |mut body: Stmt| {
        for (single, at) in outside.iter().rev() {
            body = around(&body, *single, *at);
        }
        for single in within.iter().rev() {
            body = inside(&body, *single, innermost);
        }
        body
    };
    if split.is_empty() || split == [whole] {
        let proof = Proof { facts: vec![format!("`{name}` keeps its one loop")], ..Proof::default() };
        return Ok((Nest { names, ..with_body(nest, beside(nest.body.clone())) }, proof));
    }
    let redex = |_: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), _]) if *d == whole => Redex::Hard,
        _ => Redex::No,
    };
    let (body, mut proof) = solve(
        nest,
        &[rule(whole, split)],
        &redex,
        || Failure::no_match(format!("the loop over `{name}` is no plain loop")),
        || Failure::unmet(format!("the loop over `{name}` could not be split")),
    )?;
    proof.facts.push(match whole.steps {
        Steps::Fixed(n) if n % product == 0 => format!("{product} divides the {n} steps of `{name}`"),
        _ => format!("`{name}` is the outermost digit of its axis: steps beyond the extent are guarded"),
    });
    Ok((Nest { names, ..with_body(nest, beside(body)) }, proof))
}

/// Loops over other digits of the axis that take larger steps. A digit of one step lies below the other digits of its
/// stride.
pub(crate) fn around_digit(nest: &Nest, digit: Digit) -> impl Iterator<Item = Digit> {
    let one = Steps::Fixed(1);
    let above = move |d: &Digit| {
        let single = digit.steps == one && d.steps != one;
        d.axis == digit.axis && (d.stride > digit.stride || d.stride == digit.stride && single)
    };
    loops(&nest.body).into_iter().map(|(d, _)| d).filter(above)
}

/// Product of the factors, if they divide the digit or the digit is its axis' outermost.
fn divides(nest: &Nest, name: &str, whole: Digit, new: &[String], factors: &[u32]) -> Result<u32, Failure> {
    let refuse = |message: String| Failure::refused(Diagnostic::new(SpanId::NONE, message));
    if factors.contains(&0) {
        return Err(refuse(format!("a factor of the split of `{name}` is 0")));
    }
    let product = factors.iter().try_fold(1u32, |p, f| p.checked_mul(*f));
    let Some(product) = product.filter(|p| p.checked_mul(whole.stride).is_some_and(|p| p < 1 << 30)) else {
        return Err(refuse(format!("the factors of the split of `{name}` multiply to more than 2³⁰ points")));
    };
    // One of a single step, too: it may be split itself, and grow.
    let outermost = around_digit(nest, whole).next().is_none();
    match whole.steps {
        Steps::Fixed(n) if n % product != 0 && !outermost && enforced("split: the factor divides") => {
            let failure = if factors.len() == 1 {
                refuse(format!("{product} does not divide the {n} steps of `{name}`"))
            } else {
                let spelled: Vec<String> = factors.iter().map(u32::to_string).collect();
                refuse(format!(
                    "{} = {product} does not divide the {n} steps of `{name}`",
                    spelled.join(" · ")
                ))
            };
            let mut legal = divisors(n);
            legal.retain(|f| *f > 1);
            let near = legal.iter().copied().min_by_key(|f| f.abs_diff(product));
            // Of many, those around the one that was asked for.
            let at = legal.partition_point(|f| *f < product).saturating_sub(MOST_LISTED / 2);
            let shown = &legal[at.min(legal.len().saturating_sub(MOST_LISTED))..];
            let listed: Vec<String> = shown.iter().take(MOST_LISTED).map(u32::to_string).collect();
            let failure = failure.remark(format!("factors that divide {n}: {}", listed.join(", ")));
            let [_] = factors else { return Err(failure) };
            let split = |factor| {
                DirectiveKind::Split(directive::Split {
                    digit: name.to_string(),
                    names: new.to_vec(),
                    factors: vec![factor],
                })
            };
            Err(failure.edits(near.map(|factor| Edit::instead([split(factor)]))))
        }
        _ => Ok(product),
    }
}
