//! `split`: one loop becomes a chain of loops over digits of the same axis.
//!
//! ```text
//! (for a.s.n t X)  →  (for a.(s·f).⌈n/f⌉ t (for a.s.f t X))
//! ```
//! The value of the axis is Σ digit · stride on both sides, so `X` is untouched.
//!
//! Side condition: f divides n, unless the digit is the axis' outermost, where surplus points lie beyond the
//! extent and are guarded. An inner digit with surplus steps would visit points of its neighbour again.
//! Source: strip-mining (Wolfe 1989); "digits" after mixed-radix notation.

use super::{Failure, Proof, Rule, solve, with_body};
use crate::{
    diagnostic::Diagnostic,
    engine::{
        facts::{Graph, at, digit},
        language::Node,
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    nest::{At, Digit, Nest, Steps, loops},
    span::SpanId,
};

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    ONE = "(for ?#3 ?#1 ?#2)";
    TWO = "(for ?#3 ?#1 (for ?#4 ?#1 ?#2))";
    THREE = "(for ?#3 ?#1 (for ?#4 ?#1 (for ?#5 ?#1 ?#2)))";
    FOUR = "(for ?#3 ?#1 (for ?#4 ?#1 (for ?#5 ?#1 (for ?#6 ?#1 ?#2))))";
}

/// Most digits that one `split` gives.
const MOST: usize = 4;

/// Rewrites the loop over `whole` into loops over `parts` (1 to 4), outermost first.
pub(in crate::engine) fn rule(whole: Digit, parts: Vec<Digit>) -> Rule<'static> {
    let after = [&ONE, &TWO, &THREE, &FOUR][parts.len() - 1];
    Rule::new("split", &LOOP, after, move |graph, subst| {
        if digit(graph, get(subst, 0)) != whole || at(graph, get(subst, 1)) != At::Seq {
            return Verdict::Skip;
        }
        for (n, part) in parts.iter().enumerate() {
            let id = graph.add(Node::Digit(*part));
            set(subst, n as u32 + 3, id);
        }
        Verdict::Apply
    })
}

/// The two digits of a digit cut at `factor`.
pub(in crate::engine) fn cut(whole: Digit, factor: u32) -> (Digit, Digit) {
    let steps = match whole.steps {
        Steps::Fixed(n) => Steps::Fixed(n.div_ceil(factor)),
        Steps::Rest => Steps::Rest,
    };
    let outer = Digit { axis: whole.axis, stride: whole.stride.saturating_mul(factor), steps };
    (outer, Digit { axis: whole.axis, stride: whole.stride, steps: Steps::Fixed(factor) })
}

/// `split(name -> names: factors)`.
pub(in crate::engine) fn apply(
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
    let product = divides(nest, name, whole, factors)?;
    let (mut names, mut parts, mut rest) = (nest.names.clone(), Vec::new(), whole);
    for (name, factor) in new[1..].iter().zip(factors).rev() {
        let (outer, inner) = cut(rest, *factor);
        names.insert(name.clone(), inner);
        parts.insert(0, inner);
        rest = outer;
    }
    names.insert(new[0].clone(), rest);
    parts.insert(0, rest);
    // A digit of one step adds nothing.
    parts.retain(|d| d.steps != Steps::Fixed(1));
    if parts.is_empty() || parts == [whole] {
        let proof = Proof { facts: vec![format!("`{name}` keeps its one loop")], ..Proof::default() };
        return Ok((Nest { names, ..nest.clone() }, proof));
    }
    let redex = |_: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), Node::At(At::Seq), _]) if *d == whole => Redex::Hard,
        _ => Redex::No,
    };
    let (body, mut proof) = solve(
        nest,
        &[rule(whole, parts)],
        &redex,
        || Failure::no_match(format!("the loop over `{name}` is no plain loop")),
        || Failure::unmet(format!("the loop over `{name}` could not be split")),
    )?;
    proof.facts.push(match whole.steps {
        Steps::Fixed(n) if n % product == 0 => format!("{product} divides the {n} steps of `{name}`"),
        _ => format!("`{name}` is the outermost digit of its axis: steps beyond the extent are guarded"),
    });
    Ok((Nest { names, ..with_body(nest, body) }, proof))
}

/// Product of the factors, if they divide the digit or the digit is its axis' outermost.
fn divides(nest: &Nest, name: &str, whole: Digit, factors: &[u32]) -> Result<u32, Failure> {
    let refuse = |message: String| Failure::refused(Diagnostic::new(SpanId::NONE, message));
    if factors.contains(&0) {
        return Err(refuse(format!("a factor of the split of `{name}` is 0")));
    }
    let product = factors.iter().try_fold(1u32, |p, f| p.checked_mul(*f));
    let Some(product) = product.filter(|p| p.checked_mul(whole.stride).is_some_and(|p| p < 1 << 30)) else {
        return Err(refuse(format!("the factors of the split of `{name}` multiply to more than 2³⁰ points")));
    };
    let outermost = !loops(&nest.body)
        .iter()
        .any(|(d, _)| d.axis == whole.axis && d.stride > whole.stride && d.steps != Steps::Fixed(1));
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
            let legal: Vec<String> = (2..=n).filter(|f| n % f == 0).map(|f| f.to_string()).collect();
            Err(failure.help(format!("factors that divide {n}: {}", legal.join(", "))))
        }
        _ => Ok(product),
    }
}
