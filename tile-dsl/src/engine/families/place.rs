//! `recompute` and `fuse`: where an intermediate value is computed.
//!
//! ```text
//! sink       (let v P (let w A B))  →  (let w (let v P A) B)            v unread in B
//!                                   →  (let w A (let v P B))            v unread in A
//! recompute  (let v P (let w A B))  →  (let w (let v P A) (let v P B))
//! fuse       (let v (for a t P) (for a t Q))  →  (for a t (let v P Q))
//! inward     (let v P (for b t Q))  →  (for b t (let v P Q))             `v` is computed again in each step of `b`
//! reorder    (for b u (for a t X))  →  (for a t (for b u X))                `a` is to be fused, `b` comes later or is not
//! ```
//! Side conditions. Reorder: as in its own family, and only where the loops do not match as they stand. Sink and recompute: `P` writes only `v`; nothing that `P` reads is written by `A` if `v` is
//! then computed after `A`. Fuse: as fission (its reverse): the axis of `a` indexes every value of the `let`,
//! and steps communicate through nothing else. Inward: only where nothing else leads to the reader; the axis of `b` is in neither `v` nor `P`,
//! `P` writes only `v`, and `Q` writes nothing that `P` reads.
//! Source: compute_at and inlining (Ragan-Kelley et al. 2013); loop fusion (Kennedy and McKinley 1990).

use super::{Failure, FailureKind, Proof, Rule, fission::independent, reorder, solve, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        facts::{Graph, digit, effects, target_name, value_axes, values},
        language::{Node, bit},
        names::{self, Bare},
        phase::{self, Redex},
        rule::{Verdict, enforced, get, patterns},
    },
    nest::{Digit, Frame, Nest, Target, ValueId, leaves},
    span::SpanId,
};

patterns! {
    CHAIN = "(let ?#0 ?#1 (let ?#2 ?#3 ?#4))";
    LEFT = "(let ?#2 (let ?#0 ?#1 ?#3) ?#4)";
    RIGHT = "(let ?#2 ?#3 (let ?#0 ?#1 ?#4))";
    BOTH = "(let ?#2 (let ?#0 ?#1 ?#3) (let ?#0 ?#1 ?#4))";
    APART = "(let ?#0 (for ?#1 ?#2 ?#3) (for ?#1 ?#2 ?#4))";
    FUSED = "(for ?#1 ?#2 (let ?#0 ?#3 ?#4))";
    ABOVE = "(let ?#0 ?#1 (for ?#2 ?#3 ?#4))";
    BELOW = "(for ?#2 ?#3 (let ?#0 ?#1 ?#4))";
}

/// Moves `v` into the one part that reads it.
fn sink(v: ValueId, left: bool) -> Rule<'static> {
    let after = if left { &LEFT } else { &RIGHT };
    Rule::new("sink", &CHAIN, after, move |graph, subst| moves(graph, subst, v, (left, !left)))
}

/// Gives each part that reads `v` its own computation of it.
fn recompute(v: ValueId) -> Rule<'static> {
    Rule::new("recompute", &CHAIN, &BOTH, move |graph, subst| moves(graph, subst, v, (true, true)))
}

fn moves(graph: &Graph, subst: &egg::Subst, v: ValueId, readers: (bool, bool)) -> Verdict {
    if values(graph, get(subst, 0)) != bit(v.0) {
        return Verdict::Skip;
    }
    let (p, a, b) =
        (effects(graph, get(subst, 1)), effects(graph, get(subst, 3)), effects(graph, get(subst, 4)));
    let read = (a.values & bit(v.0) != 0, b.values & bit(v.0) != 0);
    if read != readers && enforced("sink: unread in the other") {
        return Verdict::Skip;
    }
    let nest = &graph.analysis.nest;
    let name = &nest.value(v).name;
    let refuse = |text: String| {
        let diagnostic = Diagnostic::new(SpanId::NONE, text);
        Verdict::refuse(diagnostic.note(nest.value(v).span, format!("`{name}` is computed here")))
    };
    let other = p.writes.iter().find(|w| w.target != Target::Value(v));
    if let (Some(other), true) = (other, enforced("sink: P writes only v")) {
        let other = target_name(nest, other.target);
        return refuse(format!("the statement of `{name}` also writes `{other}`"));
    }
    let changed = a.writes.iter().find(|w| p.reads(nest, w.target));
    if let (true, Some(changed), true) = (readers.1, changed, enforced("sink: A writes nothing P reads")) {
        let changed = target_name(nest, changed.target);
        return refuse(format!("`{name}` reads `{changed}`, which changes before the last use of `{name}`"));
    }
    Verdict::Apply
}

/// Runs the loop that computes `v` and the loop that reads it as one.
fn fuse<'a>(v: ValueId, digits: &'a [Digit]) -> Rule<'a> {
    Rule::new("fuse", &APART, &FUSED, move |graph, subst| {
        let a = digit(graph, get(subst, 1));
        if values(graph, get(subst, 0)) != bit(v.0) || !digits.contains(&a) {
            return Verdict::Skip;
        }
        match independent(graph, a, get(subst, 0), get(subst, 3), get(subst, 4)) {
            Ok(()) => Verdict::Apply,
            Err(d) => Verdict::Refuse(d),
        }
    })
}

/// Computes `v` again in each step of a loop that is around its reader.
fn inward(v: ValueId) -> Rule<'static> {
    Rule::new("inward", &ABOVE, &BELOW, move |graph, subst| {
        if values(graph, get(subst, 0)) != bit(v.0) {
            return Verdict::Skip;
        }
        let axis = bit(digit(graph, get(subst, 2)).axis.0);
        let nest = &graph.analysis.nest;
        let (p, q) = (effects(graph, get(subst, 1)), effects(graph, get(subst, 4)));
        let own =
            p.writes.iter().all(|w| w.target == Target::Value(v)) || !enforced("inward: P writes only v");
        let kept = q.writes.iter().all(|w| !p.reads(nest, w.target))
            || !enforced("inward: Q writes nothing P reads");
        let apart = (p.mentions | value_axes(nest, v)) & axis == 0;
        if apart && own && kept && q.values & bit(v.0) != 0 { Verdict::Apply } else { Verdict::Skip }
    })
}

/// What the statements that read a value write.
pub(crate) fn readers(nest: &Nest, v: ValueId) -> Vec<Target> {
    let mut readers = Vec::new();
    leaves(&nest.body, &mut |_, leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        if expr.values().contains(&v) && !readers.contains(&target) {
            readers.push(target);
        }
    });
    readers
}

/// What the statements that read one computation of a value write, where these are several statements.
fn shared(nest: &Nest, v: ValueId) -> Option<Vec<Target>> {
    let mut readers: Vec<(Vec<Frame>, Vec<Target>)> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let (target, expr) = leaf.leaf().expect("a leaf");
        let Some(at) = Nest::binder(path, v).filter(|_| expr.values().contains(&v)) else { return };
        match readers.iter_mut().find(|(of, _)| of[..] == path[..at]) {
            Some((_, found)) => found.push(target),
            None => readers.push((path[..at].to_vec(), vec![target])),
        }
    });
    readers.into_iter().map(|(_, found)| found).find(|found| found.len() > 1)
}

fn computed(nest: &Nest, name: &str) -> Result<ValueId, Failure> {
    let v = names::value(nest, name)?;
    if nest.is_carried(v) {
        let text = format!("`{name}` is carried from step to step: it cannot be computed again");
        let diagnostic = Diagnostic::new(SpanId::NONE, text);
        return Err(Failure::refused(diagnostic.note(nest.value(v).span, format!("`{name}` starts here"))));
    }
    Ok(v)
}

/// `recompute(value)`: every reader gets its own computation.
pub(crate) fn apply_recompute(nest: &Nest, name: &str) -> Result<(Nest, Proof), Failure> {
    let v = computed(nest, name)?;
    let readers = readers(nest, v);
    if readers.len() < 2 && shared(nest, v).is_none() {
        let reader = readers.first().map_or("nothing", |t| target_name(nest, *t));
        let text = format!("`{name}` is read by `{reader}` only: there is nothing to compute twice");
        let failure = Failure::refused(Diagnostic::new(SpanId::NONE, text))
            .note(nest.value(v).span, format!("`{name}` is computed here"));
        let fuse = names::digit_names(nest).last().map(|at| {
            let fuse = DirectiveKind::Fuse(directive::Fuse { value: name.to_string(), at: at.clone() });
            Edit::instead([fuse]).remark("computes it where it is read")
        });
        return Err(failure.edits(fuse).edit(Edit::remove()));
    }
    let rules = [sink(v, true), sink(v, false), recompute(v)];
    // Every `let v` above a `let` is moved down as far as it goes.
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::Let(_), [Node::Values(vs), _, Node::Let([_, a, b])]) if *vs == bit(v.0) => {
            let read = |id: &egg::Id| effects(graph, *id).values & bit(v.0) != 0;
            if read(a) && read(b) { Redex::Hard } else { Redex::Soft }
        }
        _ => Redex::No,
    };
    let readers: Vec<&str> = readers.iter().map(|t| target_name(nest, *t)).collect();
    let nest = &sunk(nest, v)?;
    let (body, mut proof) = solve(
        nest,
        &rules,
        &redex,
        || {
            Failure::refused(Diagnostic::new(
                SpanId::NONE,
                format!("the readers of `{name}`, {}, share one loop", names::list(&readers)),
            ))
        },
        || Failure::unmet(format!("`{name}` could not be moved to its readers {}", names::list(&readers))),
    )?;
    proof.facts.push(format!(
        "nothing that `{name}` is computed from changes before {} read it",
        names::list(&readers)
    ));
    Ok((with_body(nest, body), proof))
}

/// The nest with a value computed as far down as one computation serves all readers: what else is computed between it
/// and them, and so the order of two `recompute`, makes no difference.
fn sunk(nest: &Nest, v: ValueId) -> Result<Nest, Failure> {
    let above = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::Let(_), [Node::Values(vs), _, Node::Let([_, a, b])]) if *vs == bit(v.0) => {
            let read = |id: &egg::Id| effects(graph, *id).values & bit(v.0) != 0;
            if read(a) != read(b) { Redex::Soft } else { Redex::No }
        }
        _ => Redex::No,
    };
    let outcome = phase::run(nest, &[sink(v, true), sink(v, false)], &above);
    match outcome.internal {
        Some(why) => Err(Failure::internal(why)),
        None => Ok(with_body(nest, outcome.body)),
    }
}

/// `fuse(value at digit)`: the value is computed inside its reader's loops, down to those of `at`.
pub(crate) fn apply_fuse(nest: &Nest, name: &str, at: &str) -> Result<(Nest, Proof), Failure> {
    let v = computed(nest, name)?;
    let whole = names::digit(nest, at, Bare::InTile)?;
    let wanted = names::inside(nest, whole);
    if wanted.is_empty() {
        names::existing(nest, at, Bare::InTile)?;
    }
    let digits = loops_down_to(nest, v, &wanted);
    let Some(digits) = digits else {
        let axis = nest.axis(whole.axis);
        let diagnostic = if nest.value(v).axes.contains(&whole.axis) {
            let text = format!("no loop over `{at}` computes `{name}` apart from its readers");
            Diagnostic::new(SpanId::NONE, text)
        } else {
            let text = format!(
                "`{name}` has no axis `{axis}`: one value serves every step of `{at}`, so the loop that computes it cannot be the loop that reads it"
            );
            Diagnostic::new(SpanId::NONE, text)
        };
        return Err(Failure::refused(
            diagnostic.note(nest.value(v).span, format!("`{name}` is computed here")),
        ));
    };
    let rules = [sink(v, true), sink(v, false), fuse(v, &digits)];
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::Let(_), [Node::Values(vs), Node::For([a, ..]), _])
            if *vs == bit(v.0) && digits.contains(&digit(graph, *a)) =>
        {
            Redex::Hard
        }
        _ => Redex::No,
    };
    let unmatched = || match shared(nest, v) {
        Some(readers) => {
            let mut readers: Vec<&str> = readers.iter().map(|t| target_name(nest, *t)).collect();
            readers.dedup();
            let text = format!(
                "`{name}` is read by {}, in separate loops: one loop cannot compute it for all of them",
                names::list(&readers)
            );
            let own = DirectiveKind::Recompute(directive::Recompute { value: name.to_string() });
            let fuse = DirectiveKind::Fuse(directive::Fuse { value: name.to_string(), at: at.to_string() });
            Failure::refused(Diagnostic::new(SpanId::NONE, text))
                .note(nest.value(v).span, format!("`{name}` is computed here"))
                .edit(Edit::instead([own, fuse]).remark("each reader computes its own"))
        }
        None => {
            Failure::unmet(format!("the loops that compute `{name}` and those that read it do not match"))
        }
    };
    // Loops of a reader, or of the computation, may stand around the one that they share.
    let around = |graph: &Graph, body: egg::Id, a: Digit, b: Digit| {
        let facts = effects(graph, body);
        let concerned = facts.values & bit(v.0) != 0 || facts.writes(nest, Target::Value(v));
        let place = |d: Digit| digits.iter().position(|o| *o == d);
        concerned && place(b).is_some_and(|b| place(a).is_none_or(|a| a > b))
    };
    let (body, mut proof) = match solve(nest, &rules, &redex, unmatched, unmatched) {
        Err(failure) if failure.kind != FailureKind::Internal => {
            let [left, right, fuse] = rules;
            let rules = [left, right, fuse, reorder::rule(around)];
            let turned = solve(nest, &rules, &redex, unmatched, unmatched);
            let [left, right, fuse, _] = rules;
            match turned {
                // Last, as it computes more.
                Err(other)
                    if [failure.kind, other.kind] == [FailureKind::Unmet; 2] && shared(nest, v).is_none() =>
                {
                    solve(nest, &[left, right, fuse, inward(v)], &redex, unmatched, unmatched)?
                }
                turned => turned
                    .map_err(|other| if failure.kind == FailureKind::Unmet { other } else { failure })?,
            }
        }
        solved => solved?,
    };
    let loops: Vec<String> = digits.iter().map(|d| nest.digit_name(*d)).collect();
    proof.facts.push(format!("each step of {} has its own `{name}`", names::list(&loops)));
    Ok((with_body(nest, body), proof))
}

/// The loops around the computation of a value, inside its `let`, from the outermost down to the last wanted one.
fn loops_down_to(nest: &Nest, v: ValueId, wanted: &[Digit]) -> Option<Vec<Digit>> {
    let mut found: Option<Vec<Digit>> = None;
    leaves(&nest.body, &mut |path, leaf| {
        if leaf.leaf().expect("a leaf").0 != Target::Value(v) {
            return;
        }
        let bound = path.iter().rposition(|f| matches!(f, Frame::First(vs) if vs.contains(&v)));
        let chain: Vec<Digit> = path[bound.unwrap_or(0)..]
            .iter()
            .filter_map(|f| f.step().map(|(d, _)| d))
            .filter(|d| nest.value(v).axes.contains(&d.axis))
            .collect();
        if let Some(last) = chain.iter().rposition(|d| wanted.contains(d)) {
            found = Some(chain[..=last].to_vec());
        }
    });
    found
}
