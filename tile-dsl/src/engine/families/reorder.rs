//! `reorder`: loop interchange, directed towards the order asked for.
//!
//! ```text
//! (for a t (for b u X))  →  (for b u (for a t X))      only if a stands after b in the order asked for
//! ```
//! Side condition: no name is carried from step to step of both loops: set in `X`, or added to and read in it. Reordering precedes staging, so no
//! copy stands between the loops. Reductions may be reordered: sums are documented as reassociable, and the order chosen is
//! fixed, so results stay bit-identical from run to run.
//! Source: Allen and Kennedy, *Automatic Loop Interchange* (1984).

use super::{Failure, Proof, Rule, solve, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        facts::{Graph, Kind, Write, digit, effects, target_axes, target_name},
        language::{Node, bit},
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns},
    },
    nest::{Digit, Frame, LoopKind, Nest, Steps, Target, leaves},
    span::SpanId,
};
use std::collections::{BTreeMap, BTreeSet};

patterns! {
    NESTED = "(for ?#0 ?#1 (for ?#2 ?#3 ?#4))";
    SWAPPED = "(for ?#2 ?#3 (for ?#0 ?#1 ?#4))";
}

/// Swaps neighbouring loops `a`, `b` around a body where `inverted(graph, body, a, b)`.
pub(crate) fn rule<'a>(inverted: impl Fn(&Graph, egg::Id, Digit, Digit) -> bool + 'a) -> Rule<'a> {
    Rule::new("reorder", &NESTED, &SWAPPED, move |graph, subst| {
        let (a, b) = (digit(graph, get(subst, 0)), digit(graph, get(subst, 2)));
        let body = get(subst, 4);
        // From the inside out, as insertion sort does: other ways of getting there would only multiply the members.
        if !inverted(graph, body, a, b) || !settled(graph, body, b, &inverted, &mut vec![]) {
            return Verdict::Skip;
        }
        let nest = graph.analysis.nest.clone();
        let facts = effects(graph, body);
        // A sum that a step reads is carried as well as state that is set.
        let carried = |w: &&Write| match (w.kind, w.target) {
            (Kind::Red, Target::Value(v)) => facts.values & bit(v.0) != 0,
            (kind, _) => kind == Kind::Set,
        };
        for write in facts.writes.iter().filter(carried) {
            let axes = target_axes(&nest, write.target);
            if axes & (bit(a.axis.0) | bit(b.axis.0)) == 0 && enforced("reorder: nothing carried by both") {
                let name = target_name(&nest, write.target);
                let (a, b) = (nest.digit_name(a), nest.digit_name(b));
                let carried = format!(
                    "`{name}` is carried from step to step of both `{a}` and `{b}`: swapping them changes what it holds"
                );
                let example = format!("{a} = 1, {b} = 0 must run after {a} = 0, {b} = 1");
                let span = value_span(&nest, write.target);
                return Verdict::refuse(Diagnostic::new(SpanId::NONE, carried).note(span, example));
            }
        }
        Verdict::Apply
    })
}

/// Whether the loops directly inside a loop over `a` are in order, or can be taken in an order in which they are. `around`: bodies
/// that this one is in. A loop of which nothing is done equals its own body.
fn settled(
    graph: &Graph,
    body: egg::Id,
    a: Digit,
    inverted: &dyn Fn(&Graph, egg::Id, Digit, Digit) -> bool,
    around: &mut Vec<egg::Id>,
) -> bool {
    let body = graph.find(body);
    if around.contains(&body) {
        return false;
    }
    around.push(body);
    let is = inner_settled(graph, body, a, inverted, around);
    around.pop();
    is
}

/// [`settled`], of a body that is not among those around it.
fn inner_settled(
    graph: &Graph,
    body: egg::Id,
    a: Digit,
    inverted: &dyn Fn(&Graph, egg::Id, Digit, Digit) -> bool,
    around: &mut Vec<egg::Id>,
) -> bool {
    let mut ahead = false;
    for node in &graph[body].nodes {
        let Node::For([b, _, inner]) = node else { continue };
        let b = digit(graph, *b);
        if inverted(graph, *inner, a, b) {
            ahead = true;
        } else if settled(graph, *inner, b, inverted, around) {
            return true;
        }
    }
    !ahead && graph[body].nodes.iter().any(|node| !matches!(node, Node::For(_)))
}

pub(crate) fn value_span(nest: &Nest, target: Target) -> SpanId {
    match target {
        Target::Value(v) => nest.value(v).span,
        Target::Access(a) => nest.access(a).span,
    }
}

/// `reorder(digits)`, optionally only around the statement that computes `within`.
pub(crate) fn apply(nest: &Nest, digits: &[String], within: Option<&str>) -> Result<(Nest, Proof), Failure> {
    let mut listed: Vec<Digit> = Vec::new();
    for name in digits {
        let digit = names::existing(nest, name, Bare::InTile)?;
        // Loops of one step may be one loop by two names.
        let again = digit.steps != Steps::Fixed(1) || digits.iter().filter(|d| *d == name).count() > 1;
        if listed.contains(&digit) && !again {
            continue;
        }
        if listed.contains(&digit) {
            let mut once: Vec<String> = Vec::new();
            digits.iter().for_each(|d| {
                if !once.contains(d) {
                    once.push(d.clone())
                }
            });
            let reorder = DirectiveKind::Reorder(directive::Reorder {
                digits: once,
                within: within.map(str::to_string),
            });
            return Err(Failure::no_match(format!("`{name}` is listed twice"))
                .edit(Edit::instead([reorder]))
                .edit(Edit::remove()));
        }
        listed.push(digit);
    }
    let value = within;
    let within = within.map(|w| target(nest, w)).transpose()?;
    related(nest, digits, &listed, value.zip(within.as_ref()))?;
    let orders = orders(nest, &listed, within.as_ref());
    if orders.is_empty() {
        return Err(apart(nest, digits, &listed));
    }
    let inverted = |graph: &Graph, body: egg::Id, a: Digit, b: Digit| {
        effects(graph, body).writes.iter().any(|w| {
            // Several statements may write a name that is carried: the first with both loops says.
            let of_name = orders.get(&(w.target, w.kind)).into_iter().flatten();
            let mut places = of_name.filter_map(|order| {
                let place = |d: Digit| order.iter().position(|o| *o == d);
                place(a).zip(place(b))
            });
            places.next().is_some_and(|(a, b)| a > b)
        })
    };
    let is_redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(a), _, Node::For([b, _, body])])
            if inverted(graph, *body, *a, digit(graph, *b)) =>
        {
            Redex::Hard
        }
        _ => Redex::No,
    };
    let rules = [rule(inverted)];
    let in_order =
        || Failure::no_match(format!("the loops over {} are in this order already", names::list(digits)));
    let unmet = || Failure::unmet(format!("the order {} could not be derived", names::list(digits)));
    let (body, mut proof) = match solve(nest, &rules, &is_redex, in_order, unmet) {
        Ok(solved) => solved,
        // Nothing to do is what was asked for.
        Err(f) if f.kind == crate::engine::FailureKind::NoMatch => (nest.body.clone(), Proof::default()),
        Err(f) => return Err(f),
    };
    proof.facts.push(format!("no value is carried from step to step of two of {}", names::list(digits)));
    Ok((with_body(nest, body), proof))
}

/// That each of the loops has a place in the order: it stands around the statement that the directive is restricted to, if
/// it is, and around some statement together with another of the loops.
fn related(
    nest: &Nest,
    digits: &[String],
    listed: &[Digit],
    within: Option<(&str, &BTreeSet<Target>)>,
) -> Result<(), Failure> {
    let without = |failure: Failure, name: &String| {
        let digits: Vec<String> = digits.iter().filter(|n| *n != name).cloned().collect();
        let within = within.map(|(value, _)| value.to_string());
        let fewer = (digits.len() > 1).then(|| Edit::instead([directive::Reorder { digits, within }]));
        Err(failure.edits(fewer).edit(Edit::remove()))
    };
    for name in digits {
        let digit = names::existing(nest, name, Bare::InTile)?;
        if let Some((value, targets)) = within
            && let Err(failure) = names::around(nest, name, digit, targets, value)
        {
            return without(failure, name);
        }
        let (mut here, mut elsewhere) = (listed.len() < 2, false);
        leaves(&nest.body, &mut |path, _| {
            let has = |d: &Digit| path.iter().any(|f| matches!(f, Frame::For(of, _) if of == d));
            let two = listed.iter().filter(|d| has(d)).count() > 1;
            here |= two && has(&digit);
            elsewhere |= two;
        });
        if !here && elsewhere {
            let others: Vec<&String> = digits.iter().filter(|n| *n != name).collect();
            let text = format!(
                "no statement has a loop over `{name}` together with one over {}",
                names::list(&others)
            );
            return without(Failure::no_match(text), name);
        }
    }
    Ok(())
}

/// The statement that computes a value or stores a tensor, by name.
pub(crate) fn target(nest: &Nest, name: &str) -> Result<BTreeSet<Target>, Failure> {
    let mut found = BTreeSet::new();
    let mut known = Vec::new();
    leaves(&nest.body, &mut |_, leaf| {
        let target = leaf.leaf().expect("a leaf").0;
        let this = target_name(nest, target).to_string();
        if this == name {
            found.insert(target);
        }
        if !known.contains(&this) {
            known.push(this);
        }
    });
    if found.is_empty() { Err(names::unknown("statement", name, known)) } else { Ok(found) }
}

/// The orders that the loops around statements are to have, by the name they write and how.
type Orders = BTreeMap<(Target, Kind), Vec<Vec<Digit>>>;

/// The order that the loops of each statement are to have, of those chains of loops that have two or more
/// of the listed digits. The places of the listed loops are refilled in the listed order.
fn orders(nest: &Nest, listed: &[Digit], within: Option<&BTreeSet<Target>>) -> Orders {
    let mut orders = Orders::new();
    leaves(&nest.body, &mut |path, leaf| {
        let target = leaf.leaf().expect("a leaf").0;
        if within.is_some_and(|w| !w.contains(&target)) {
            return;
        }
        let (mut order, mut reordered) = (Vec::new(), false);
        // The loops of an atom stay together.
        for chain in path.split(|f| !matches!(f, Frame::For(_, at) if !matches!(at, LoopKind::Atom(..)))) {
            let chain: Vec<Digit> = chain.iter().filter_map(|f| f.step().map(|(d, _)| d)).collect();
            let mut wanted = listed.iter().filter(|d| chain.contains(d));
            reordered |= chain.iter().filter(|d| listed.contains(d)).count() > 1;
            order.extend(
                chain.iter().map(|d| if listed.contains(d) { *wanted.next().expect("as many") } else { *d }),
            );
        }
        if reordered {
            let known = orders.entry((target, Kind::of(leaf))).or_default();
            if !known.contains(&order) {
                known.push(order);
            }
        }
    });
    orders
}

/// No statement has two of the loops in one chain: say what stands between them.
fn apart(nest: &Nest, names: &[String], listed: &[Digit]) -> Failure {
    let mut between = None;
    leaves(&nest.body, &mut |path, _| {
        let places: Vec<usize> = path
            .iter()
            .enumerate()
            .filter(|(_, f)| matches!(f, Frame::For(d, _) if listed.contains(d)))
            .map(|(n, _)| n)
            .collect();
        if let [first, .., last] = places.as_slice() {
            between = between.take().or_else(|| {
                path[*first..*last].iter().find_map(|f| match f {
                    Frame::First(v) | Frame::Rest(v) => v.first().copied(),
                    _ => None,
                })
            });
        }
    });
    let loops = names::list(names);
    match between {
        Some(v) => {
            let value = nest.value(v);
            Failure::refused(
                Diagnostic::new(
                    SpanId::NONE,
                    format!(
                        "the loops over {loops} are not nested directly: `{}` is computed between them",
                        value.name
                    ),
                )
                .note(value.span, format!("`{}` is computed here", value.name)),
            )
        }
        None => Failure::no_match(format!("no statement has two of the loops {loops}"))
            .remark(format!("the loops are {}", names::list(&names::digit_names(nest)))),
    }
}
