//! What an atom does to the loops that are not its own: readers of its sums, and what its operands are computed from, take
//! the lanes and slots in which its registers lie; a later atom takes that back for its own sums and what follows them.
//!
//! ```text
//! (for m X)  →  (for m.half (for m.row #lane.y X)), and n likewise               X: what reads the sums
//! (for a.s.n (for a.t.m X))  →  (for a.t.nm X)                                     digits that another atom left, s = t·m
//! ```

use super::Sum;
use crate::{
    engine::{
        facts::{Graph, Kind, Write, at, digit, effects},
        families::{Failure, Rule, bind, with_body},
        language::Node,
        names,
        phase::{self, Redex},
        rule::{Verdict, enforced, get, patterns, set},
    },
    index::AxisId,
    nest::{
        Atom, Digit, Expr, Factor, Frame, Level, LoopKind, Nest, Operand, Part, Place, Role, Steps, Stmt,
        Target, ValueId, leaves,
    },
    schedule::Unit,
};
use std::collections::{BTreeMap, BTreeSet};

patterns! {
    TWO = "(for ?#0 ?#1 (for ?#2 ?#3 ?#4))";
    ONE = "(for ?#5 ?#6 ?#4)";
    LOOP = "(for ?#0 ?#1 ?#2)";
    SPREAD_1 = "(for ?#3 ?#4 ?#2)";
    SPREAD_2 = "(for ?#3 ?#4 (for ?#5 ?#6 ?#2))";
    SPREAD_3 = "(for ?#3 ?#4 (for ?#5 ?#6 (for ?#7 ?#8 ?#2)))";
}

/// Takes back what another atom made of the loops around a sum and around what is computed from it: digits that its lanes
/// and registers hold.
pub(super) fn gather(nest: &Nest, value: ValueId, sum: &Sum) -> Result<Nest, Failure> {
    let left: Vec<Digit> = nest
        .names
        .iter()
        .filter(|(name, digit)| names::is_of_atoms(name) && sum.axes.contains(&digit.axis))
        .map(|(_, digit)| *digit)
        .collect();
    let (later, [_, _, summed]) = (downstream(nest, value), sum.axes);
    let concerns = |graph: &Graph, axis: AxisId, body: egg::Id| {
        let adds = |w: &Write| w.target == Target::Value(value) && w.kind == Kind::Red;
        effects(graph, body).writes.iter().all(|w| adds(w) || axis != summed && later.contains(&w.target))
    };
    let apart = |at: LoopKind| matches!(at, LoopKind::Seq | LoopKind::Unit(Unit::Lane | Unit::Warp, _));
    let rule = Rule::new("gather", &TWO, &ONE, |graph, subst| {
        let [(a, s), (b, t)] =
            [(0, 1), (2, 3)].map(|(d, t)| (digit(graph, get(subst, d)), at(graph, get(subst, t))));
        let (Steps::Fixed(n), Steps::Fixed(m)) = (a.steps, b.steps) else { return Verdict::Skip };
        let neighbours = a.axis == b.axis && a.stride == b.stride.saturating_mul(m);
        if !neighbours
            || !left.contains(&a)
            || !apart(s)
            || !apart(t)
            || !concerns(graph, a.axis, get(subst, 4))
        {
            return Verdict::Skip;
        }
        let whole = Digit { steps: Steps::Fixed(n.saturating_mul(m)), ..b };
        let (whole, plain) = (graph.add(Node::Digit(whole)), graph.add(Node::LoopKind(LoopKind::Seq)));
        set(subst, 5, whole);
        set(subst, 6, plain);
        Verdict::Apply
    });
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([.., body]), [Node::Digit(d), Node::LoopKind(t), _])
            if left.contains(d) && apart(*t) && concerns(graph, d.axis, *body) =>
        {
            Redex::Soft
        }
        _ => Redex::No,
    };
    let outcome = phase::run(nest, &[rule], &redex);
    if let Some(why) = outcome.internal {
        return Err(Failure::internal(why));
    }
    let mut gathered = with_body(nest, outcome.body);
    // Lanes that held parts of a reduction hold them no more.
    let parts = Nest { combine: Default::default(), ..gathered.clone() };
    gathered.combine.retain(|v, _| bind::uncombined(&parts, *v).is_some());
    Ok(gathered)
}

/// How lanes and slots hold a dimension.
pub(super) struct Spread {
    /// Statements that write these, or all others.
    pub of: Option<BTreeSet<Target>>,
    pub parts: Vec<Part>,
    /// A digit of one step beside them.
    pub single: Option<Part>,
}

/// The layouts of a dimension of an atom: what its operands are computed from lies as the operands do, all else as the sums.
pub(super) fn layouts_of(nest: &Nest, value: ValueId, atom: Atom, role: Role) -> Vec<Spread> {
    let mut layouts = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let Some(product) = nest.product(path, leaf) else { return };
        if leaf.leaf().expect("a leaf").0 != Target::Value(value) {
            return;
        }
        for (operand, factor) in [Operand::A, Operand::B].into_iter().zip(product.factors) {
            let parts = atom.operand(operand, role);
            // What an instruction reads itself no lane holds.
            if atom.row().descriptors && factor.element().is_some() {
                continue;
            }
            if let (Factor::Computed(expr), false) = (factor, parts.is_empty()) {
                let (of, single) = (upstream(nest, expr), atom.single(role, Some(operand)));
                // Loads are nowhere before.
                if !of.is_empty() {
                    layouts.push(Spread { of: Some(of), parts, single });
                }
            }
        }
    });
    if role != Role::K {
        layouts.push(Spread { of: None, parts: atom.parts(role).to_vec(), single: atom.single(role, None) });
    }
    layouts
}

/// A set of what is written, and what that leads to, from statement to statement.
fn closed(
    nest: &Nest,
    mut found: BTreeSet<Target>,
    reach: impl Fn(&mut BTreeSet<Target>, Target, BTreeSet<Target>),
) -> BTreeSet<Target> {
    loop {
        let before = found.len();
        leaves(&nest.body, &mut |_, leaf| {
            let (target, expr) = leaf.leaf().expect("a leaf");
            reach(&mut found, target, read(expr));
        });
        if found.len() == before {
            return found;
        }
    }
}

/// The values that an expression reads.
fn read(expr: &Expr) -> BTreeSet<Target> {
    expr.values().into_iter().map(Target::Value).collect()
}

/// What is computed from a value, itself included.
fn downstream(nest: &Nest, value: ValueId) -> BTreeSet<Target> {
    followed(nest, [Target::Value(value)].into())
}

/// What is computed from some targets, themselves included.
fn followed(nest: &Nest, from: BTreeSet<Target>) -> BTreeSet<Target> {
    closed(nest, from, |found, target, from| {
        if !from.is_disjoint(found) {
            found.insert(target);
        }
    })
}

/// The values that an expression is computed from.
fn upstream(nest: &Nest, expr: &Expr) -> BTreeSet<Target> {
    closed(nest, read(expr), |found, target, from| {
        if found.contains(&target) {
            found.extend(from);
        }
    })
}

/// Sums of products that lanes of another atom take already, and what follows from them alone: an atom of their own takes
/// their loops over a digit of this one. If none does, distributions will not fit.
pub(super) fn elsewhere(nest: &Nest, value: ValueId, own: Digit, layouts: &[Spread]) -> BTreeSet<Target> {
    let parts: Vec<&Part> =
        layouts.iter().flat_map(|l| &l.parts).filter(|p| p.place != Place::Slot).collect();
    let taken = |frame: &Frame| {
        let Frame::For(digit, at) = frame else { return false };
        parts.iter().any(|p| p.at() == *at) && parts.iter().all(|p| p.digit(own) != *digit)
    };
    let mut products = BTreeSet::new();
    leaves(&nest.body, &mut |path, leaf| {
        if let Stmt::Red { value: sum, expr, .. } = leaf
            && *sum != value
            && path.contains(&Frame::For(own, LoopKind::Seq))
            && path.iter().any(taken)
            && nest.factors(expr).is_ok()
        {
            products.insert(Target::Value(*sum));
        }
    });
    let mine = downstream(nest, value);
    let mut found = followed(nest, products.clone());
    found.retain(|t| products.contains(t) || !mine.contains(t));
    found
}

/// Whether a body is a sum of products over the axis of a digit, for which lanes may be no place: another atom can
/// take its loops. If none does, distributions will not fit.
fn multiplied(graph: &Graph, body: egg::Id, own: Digit) -> bool {
    let nest = &graph.analysis.nest;
    let over = |target: Target| matches!(target, Target::Value(v) if !nest.value(v).axes.contains(&own.axis));
    let sums = effects(graph, body).writes.iter().any(|w| w.kind == Kind::Red && over(w.target));
    let product = |stmt: &Stmt| matches!(stmt, Stmt::Red { expr, .. } if nest.factors(expr).is_ok());
    let leaf =
        |node: &Node| matches!(node, Node::Do(n) if product(&graph.analysis.actions[*n as usize].stmt));
    let mut body = body;
    sums && loop {
        let nodes = &graph[body].nodes;
        if nodes.iter().any(leaf) {
            break true;
        }
        match nodes.iter().find_map(|n| if let Node::For([_, _, inner]) = n { Some(*inner) } else { None }) {
            Some(inner) => body = inner,
            None => break false,
        }
    }
}

/// The layout of what a body writes, if it takes one.
fn layout_of<'l>(
    graph: &Graph,
    body: egg::Id,
    (layouts, left_alone): (&'l [Spread], &BTreeSet<Target>),
) -> Option<&'l Spread> {
    let writes = &effects(graph, body).writes;
    if writes.iter().any(|w| left_alone.contains(&w.target)) {
        return None;
    }
    let within = |of: &BTreeSet<Target>| writes.iter().all(|w| of.contains(&w.target));
    layouts.iter().find(|l| l.of.as_ref().is_none_or(within))
}

/// Reductions over lanes are combined across them.
pub(super) fn combined(
    nest: &Nest,
    own: Digit,
    layouts: &[Spread],
    left_alone: &BTreeSet<Target>,
    combine: &mut BTreeMap<ValueId, Level>,
) {
    leaves(&nest.body, &mut |path, leaf| {
        if let Stmt::Red { value, .. } = leaf
            && !left_alone.contains(&Target::Value(*value))
            && path.contains(&Frame::For(own, LoopKind::Seq))
            && !nest.value(*value).axes.contains(&own.axis)
            && !nest.is_carried(*value)
            && let Some(layout) =
                layouts.iter().find(|l| l.of.as_ref().is_none_or(|of| of.contains(&Target::Value(*value))))
        {
            let warps = layout.parts.iter().any(|p| matches!(p.place, Place::Unit(Unit::Warp, _)));
            let level = if warps { Level::Cta } else { Level::Lane };
            combine.entry(*value).or_insert(level);
        }
    });
}

/// Gives the loops over a digit, those of the atom and of what is left alone aside, the lanes and slots of the layouts.
pub(super) fn spread(
    nest: &Nest,
    name: &str,
    own: Digit,
    layouts: (&[Spread], &BTreeSet<Target>),
) -> Result<Nest, Failure> {
    // Slots stay plain loops, which a schedule may vectorize and which are unrolled otherwise.
    let how = |part: &Part| if part.place == Place::Slot { LoopKind::Seq } else { part.at() };
    // An atom of its own may take these loops, or they may stay as they are.
    let optional =
        |graph: &Graph, body: egg::Id, layout: &Spread| layout.of.is_some() || multiplied(graph, body, own);
    let rule = |after: &'static egg::Pattern<Node>, count: usize| {
        Rule::new("spread", &LOOP, after, move |graph, subst| {
            if digit(graph, get(subst, 0)) != own || at(graph, get(subst, 1)) != LoopKind::Seq {
                return Verdict::Skip;
            }
            let body = get(subst, 2);
            let Some(layout) = layout_of(graph, body, layouts).filter(|l| l.parts.len() == count) else {
                return Verdict::Skip;
            };
            for part in &layout.parts {
                if let LoopKind::Unit(unit, _) = part.at()
                    && enforced("tensor_core: readers distribute")
                    && let Some(d) = bind::clash(graph, body, part.digit(own), unit)
                {
                    return if optional(graph, body, layout) { Verdict::Skip } else { Verdict::refuse(d) };
                }
            }
            for (var, part) in (3..).step_by(2).zip(&layout.parts) {
                let (loop_, at) =
                    (graph.add(Node::Digit(part.digit(own))), graph.add(Node::LoopKind(how(part))));
                set(subst, var, loop_);
                set(subst, var + 1, at);
            }
            Verdict::Apply
        })
    };
    let rules = [rule(&SPREAD_1, 1), rule(&SPREAD_2, 2), rule(&SPREAD_3, 3)];
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([.., body]), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), _]) if *d == own => {
            match layout_of(graph, *body, layouts) {
                None => Redex::No,
                Some(layout) if optional(graph, *body, layout) => Redex::Soft,
                Some(_) => Redex::Hard,
            }
        }
        _ => Redex::No,
    };
    // Another atom may have spread them all.
    let outcome = phase::run(nest, &rules, &redex);
    if let Some(why) = outcome.internal {
        return Err(Failure::internal(why));
    }
    if outcome.left > 0 {
        let unmet = || Failure::unmet(format!("what reads `{name}` could not be spread over lanes"));
        return Err(outcome.refusals.into_iter().next().map_or_else(unmet, Failure::refused));
    }
    Ok(with_body(nest, outcome.body))
}
