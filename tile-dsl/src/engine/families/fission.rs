//! Fission, hoisting and both at once: a loop around a `let` moves into its parts.
//!
//! ```text
//! fission  (for a t (let V P Q))  →  (let V (for a t P) (for a t Q))
//! hoist    (for a t (let V P Q))  →  (let V P (for a t Q))
//! share    (for a t (let V P Q))  →  (let V P' (for a t Q))       P': the loop around what has its axis in P
//! empty    (for a t (skip))       →  (skip)
//! ```
//! Side conditions. Fission: the axis of `a` indexes every value of `V` and none is scanned along it (each step has its own), and every
//! other name written on one side and touched on the other is indexed by it too. Hoist: nothing in `P`
//! mentions the axis of `a`, and `P` writes only `V`. Share: some statements of `P` are indexed by the axis, the others do not
//! mention it, so that each step of `a` would compute the same by them; `P` writes only `V`, and `Q` nothing that these read.
//! Source: loop distribution (Kennedy and McKinley 1990); the conditions are set operations because
//! dependences run only through names indexed by their own axes.

use super::Rule;
use crate::{
    diagnostic::Diagnostic,
    engine::{
        facts::{Effects, Graph, digit, effects, own_axes, target_axes, target_name, values},
        language::{Node, bit, members},
        rule::{Verdict, enforced, get, patterns, set},
    },
    nest::{Digit, Stmt, Target, ValueId},
    span::SpanId,
};

patterns! {
    AROUND = "(for ?#0 ?#1 (let ?#2 ?#3 ?#4))";
    INSIDE = "(let ?#2 (for ?#0 ?#1 ?#3) (for ?#0 ?#1 ?#4))";
    SECOND = "(let ?#2 ?#3 (for ?#0 ?#1 ?#4))";
    SHARED = "(let ?#2 ?#5 (for ?#0 ?#1 ?#4))";
    LOOP = "(for ?#0 ?#1 ?#2)";
    BODY = "?#2";
}

/// The rules for one digit. Conditions that fail are no refusals: the loop stays where it is.
pub(crate) fn rules(a: Digit) -> [Rule<'static>; 4] {
    let fission = Rule::new("fission", &AROUND, &INSIDE, move |graph, subst| {
        if digit(graph, get(subst, 0)) != a {
            return Verdict::Skip;
        }
        match independent(graph, a, get(subst, 2), get(subst, 3), get(subst, 4)) {
            Ok(()) => Verdict::Apply,
            Err(_) => Verdict::Skip,
        }
    });
    let hoist = Rule::new("hoist", &AROUND, &SECOND, move |graph, subst| {
        if digit(graph, get(subst, 0)) != a {
            return Verdict::Skip;
        }
        let bound = values(graph, get(subst, 2));
        let p = effects(graph, get(subst, 3));
        let own = p.writes.iter().all(|w| matches!(w.target, Target::Value(v) if bound & bit(v.0) != 0));
        let own = own || !enforced("hoist: P writes only V");
        let unused = p.mentions & bit(a.axis.0) == 0 || !enforced("hoist: P does not mention the axis");
        if unused && own { Verdict::Apply } else { Verdict::Skip }
    });
    let share = Rule::new("share", &AROUND, &SHARED, move |graph, subst| {
        let loop_ = [get(subst, 0), get(subst, 1)];
        if digit(graph, loop_[0]) != a {
            return Verdict::Skip;
        }
        let (bound, nest) = (values(graph, get(subst, 2)), graph.analysis.nest.clone());
        let (p, q) = (effects(graph, get(subst, 3)).clone(), effects(graph, get(subst, 4)).clone());
        let own = p.writes.iter().all(|w| matches!(w.target, Target::Value(v) if bound & bit(v.0) != 0));
        let own = own || !enforced("share: P writes only V");
        let read = q.writes.iter().any(|w| p.reads(&nest, w.target));
        let kept = !read || !enforced("share: Q writes nothing P reads");
        // With the axis everywhere or nowhere it is one of the other two.
        let with = members(bound)
            .filter(|v| own_axes(&nest, Target::Value(ValueId(*v))) & bit(a.axis.0) != 0)
            .count();
        if !own || !kept || with == 0 || with == members(bound).count() {
            return Verdict::Skip;
        }
        match distributed(graph, loop_, a, get(subst, 3)) {
            Some(first) => {
                set(subst, 5, first);
                Verdict::Apply
            }
            None => Verdict::Skip,
        }
    });
    let empty = Rule::new("empty", &LOOP, &BODY, move |graph, subst| {
        let skips = |node: &Node| matches!(node, Node::Do(n) if graph.analysis.actions[*n as usize].stmt == Stmt::Skip);
        let body = get(subst, 2);
        match digit(graph, get(subst, 0)) == a && graph[body].nodes.iter().any(skips) {
            true => Verdict::Apply,
            false => Verdict::Skip,
        }
    });
    [fission, hoist, share, empty]
}

/// A loop around those statements of a body that have its axis, if the others do not mention it.
fn distributed(graph: &mut Graph, [d, t]: [egg::Id; 2], a: Digit, body: egg::Id) -> Option<egg::Id> {
    let facts = effects(graph, body).clone();
    if facts.mentions & bit(a.axis.0) == 0 {
        return Some(body);
    }
    let nest = graph.analysis.nest.clone();
    if facts.writes.iter().all(|w| own_axes(&nest, w.target) & bit(a.axis.0) != 0) {
        return Some(graph.add(Node::For([d, t, body])));
    }
    let inside = |n: &&Node| matches!(n, Node::For(_) | Node::Let(_));
    let node = match graph[body].nodes.iter().find(inside)?.clone() {
        Node::For([e, u, inner]) => Node::For([e, u, distributed(graph, [d, t], a, inner)?]),
        Node::Let([vs, first, rest]) => {
            let first = distributed(graph, [d, t], a, first)?;
            Node::Let([vs, first, distributed(graph, [d, t], a, rest)?])
        }
        _ => return None,
    };
    Some(graph.add(node))
}

/// May loop `a` run `P` then `Q` in each step, instead of all of `P` and then all of `Q`? (In either direction.)
pub(crate) fn independent(
    graph: &Graph,
    a: Digit,
    bound: egg::Id,
    first: egg::Id,
    rest: egg::Id,
) -> Result<(), Box<Diagnostic>> {
    let nest = &graph.analysis.nest;
    let bound = values(graph, bound);
    for v in members(bound).map(ValueId) {
        if own_axes(nest, Target::Value(v)) & bit(a.axis.0) == 0 && enforced("fission: the axis indexes V") {
            let (name, span) = (&nest.value(v).name, nest.value(v).span);
            let scanned = nest.value(v).axes.contains(&a.axis);
            let text = if scanned {
                format!(
                    "`{name}` is scanned along `{}`: it is known when all steps of `{}` are done, so the loop that computes it cannot be the loop that reads it",
                    nest.axis(a.axis),
                    nest.digit_name(a)
                )
            } else {
                format!(
                    "`{name}` has no axis `{}`: one value serves every step of `{}`, so the loop that computes it cannot be the loop that reads it",
                    nest.axis(a.axis),
                    nest.digit_name(a)
                )
            };
            let diagnostic = Diagnostic::new(SpanId::NONE, text);
            return Err(Box::new(diagnostic.note(span, format!("`{name}` is computed here"))));
        }
    }
    let (p, q) = (effects(graph, first), effects(graph, rest));
    let conflict = |writer: &Effects, other: &Effects| {
        writer.writes.iter().map(|w| w.target).find(|t| {
            !matches!(t, Target::Value(v) if bound & bit(v.0) != 0)
                && (other.reads(nest, *t) || other.writes(nest, *t))
                && target_axes(nest, *t) & bit(a.axis.0) == 0
        })
    };
    let forth = conflict(p, q).filter(|_| enforced("fission: what P writes is indexed"));
    let back = || conflict(q, p).filter(|_| enforced("fission: what Q writes is indexed"));
    if let Some(target) = forth.or_else(back) {
        let (name, a) = (target_name(nest, target), nest.digit_name(a));
        let text = format!("steps of `{a}` communicate through `{name}`, which they all share");
        return Err(Box::new(Diagnostic::new(SpanId::NONE, text)));
    }
    Ok(())
}
