//! Fission and hoisting: a loop around a `let` moves into its parts.
//!
//! ```text
//! fission  (for a t (let V P Q))  →  (let V (for a t P) (for a t Q))
//! hoist    (for a t (let V P Q))  →  (let V P (for a t Q))
//! ```
//! Side conditions. Fission: the axis of `a` indexes every value of `V` (each step has its own), and every
//! other name written on one side and touched on the other is indexed by it too. Hoist: nothing in `P`
//! mentions the axis of `a`, and `P` writes only `V`.
//! Source: loop distribution (Kennedy and McKinley 1990); the conditions are set operations because
//! dependences run only through names indexed by their own axes.

use super::Rule;
use crate::{
    diagnostic::Diagnostic,
    engine::{
        facts::{Effects, Graph, digit, effects, target_axes, target_name, value_axes, values},
        language::{bit, members},
        rule::{Verdict, enforced, get, patterns},
    },
    nest::{Digit, Target, ValueId},
    span::SpanId,
};

patterns! {
    AROUND = "(for ?#0 ?#1 (let ?#2 ?#3 ?#4))";
    INSIDE = "(let ?#2 (for ?#0 ?#1 ?#3) (for ?#0 ?#1 ?#4))";
    SECOND = "(let ?#2 ?#3 (for ?#0 ?#1 ?#4))";
}

/// Both rules for one digit. Conditions that fail are no refusals: the loop stays where it is.
pub(in crate::engine) fn rules(a: Digit) -> [Rule<'static>; 2] {
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
    [fission, hoist]
}

/// May loop `a` run `P` then `Q` in each step, instead of all of `P` and then all of `Q`? (In either direction.)
pub(in crate::engine) fn independent(
    graph: &Graph,
    a: Digit,
    bound: egg::Id,
    first: egg::Id,
    rest: egg::Id,
) -> Result<(), Box<Diagnostic>> {
    let nest = &graph.analysis.nest;
    let bound = values(graph, bound);
    for v in members(bound).map(ValueId) {
        if value_axes(nest, v) & bit(a.axis.0) == 0 && enforced("fission: the axis indexes V") {
            let (name, span) = (&nest.value(v).name, nest.value(v).span);
            let text = format!(
                "`{name}` has no axis `{}`: one value serves every step of `{}`, so the loop that computes it cannot be the loop that reads it",
                nest.axis(a.axis),
                nest.digit_name(a)
            );
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
