//! `bind`: the steps of a loop are taken by units of the grid or CTA at once.
//!
//! ```text
//! (for a #seq X)  →  (for a #unit X)
//! ```
//! Side conditions. In `X`, no name that lacks the axis of `a` is carried (`set`), stored or defined; one that
//! is reduced (`red`) or scanned along the axis (`scan`) is not carried and has a `reduce(..)` of the right level, and for CTAs of the grid none at all. No copy is
//! staged inside (each unit would copy it). Along one path a unit dimension is used once, everywhere with the
//! same number of steps, and threads are addressed either as `thread` or as `warp` and `lane`.
//! Source: parallel loops are those that carry no dependence (Bernstein 1966).

use super::{Failure, Proof, Rule, solve, with_body};
use crate::{
    diagnostic::{Diagnostic, Edit},
    directive::{self, DirectiveKind},
    engine::{
        facts::{Graph, Kind, at, digit, effects, own_axes, target_name},
        language::{Node, bit},
        names::{self, Bare},
        phase::Redex,
        rule::{Verdict, enforced, get, patterns, set},
    },
    nest::{Across, Digit, Frame, Level, LoopKind, Nest, Scope, Steps, Stmt, Target, ValueId, leaves, loops},
    schedule::{Space, Unit, UnitDim},
    span::SpanId,
    tile::AxisKind,
};

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    BOUND = "(for ?#0 ?#3 ?#2)";
}

/// `bind(name -> unit.dim)`, or `bind(name -> unit.dim ^ unit.xor)`.
pub(crate) fn apply(
    nest: &Nest,
    name: &str,
    unit: Unit,
    dim: UnitDim,
    xor: Option<UnitDim>,
) -> Result<(Nest, Proof), Failure> {
    let bare = if unit == Unit::Block { Bare::Tile } else { Bare::InTile };
    let digit = names::existing(nest, name, bare)?;
    let (mut bound, mut proof) = bind_digit(nest, name, digit, unit, dim)?;
    if let Some(other) = xor {
        permutes(name, digit, unit, dim, other)?;
        bound.skew.insert(digit, other);
        proof.facts.push(format!(
            "for each coordinate of {unit}.{other}, {unit}.{dim} ^ {unit}.{other} takes each step of `{name}` once"
        ));
    }
    Ok((bound, proof))
}

/// `dim ^ other` is a permutation of the steps for each coordinate of `other`. How many those are is known when
/// the schedule is complete.
fn permutes(name: &str, digit: Digit, unit: Unit, dim: UnitDim, other: UnitDim) -> Result<(), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    if unit == Unit::Block || dim == other {
        return Err(refuse(format!(
            "`{unit}.{dim} ^ {unit}.{other}`: a coordinate of a lane, warp or thread is combined with another coordinate of the same unit"
        )));
    }
    match digit.steps {
        Steps::Fixed(n) if n.is_power_of_two() => Ok(()),
        steps => Err(refuse(format!(
            "`{name}` has {steps} steps: {unit}.{dim} ^ {unit}.{other} stays below a power of two only"
        ))
        .edit(Edit::instead([directive::Bind { digit: name.to_string(), unit, dim, xor: None }]))),
    }
}

/// Binds every loop over a digit.
pub(crate) fn bind_digit(
    nest: &Nest,
    name: &str,
    a: Digit,
    unit: Unit,
    dim: UnitDim,
) -> Result<(Nest, Proof), Failure> {
    structure(nest, name, a, unit, dim)?;
    let rules = [rule(a, unit, dim)];
    let redex = |_: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), _]) if *d == a => Redex::Hard,
        _ => Redex::No,
    };
    let result = solve(
        nest,
        &rules,
        &redex,
        || Failure::no_match(format!("`{name}` is bound or expanded already")),
        || Failure::unmet(format!("`{name}` could not be bound to {unit}.{dim}")),
    );
    let (body, mut proof) = result.map_err(|f| with_reduce(nest, f, a, unit))?;
    let steps = match a.steps {
        Steps::Fixed(n) => format!("{n} steps"),
        Steps::Rest => "as many CTAs as steps".into(),
    };
    proof.facts.push(format!("no value is carried from step to step of `{name}`, {steps}"));
    Ok((with_body(nest, body), proof))
}

fn rule(a: Digit, unit: Unit, dim: UnitDim) -> Rule<'static> {
    Rule::new("bind", &LOOP, &BOUND, move |graph, subst| {
        if digit(graph, get(subst, 0)) != a || at(graph, get(subst, 1)) != LoopKind::Seq {
            return Verdict::Skip;
        }
        if let Some(diagnostic) = clash(graph, get(subst, 2), a, unit) {
            return Verdict::refuse(diagnostic);
        }
        let unit = graph.add(Node::LoopKind(LoopKind::Unit(unit, dim)));
        set(subst, 3, unit);
        Verdict::Apply
    })
}

/// Why units cannot take the steps of `a` around a body at once.
pub(crate) fn clash(graph: &Graph, body: egg::Id, a: Digit, unit: Unit) -> Option<Diagnostic> {
    let (facts, nest) = (effects(graph, body), &graph.analysis.nest);
    facts.writes.iter().find_map(|write| {
        let conjunct = match write.kind {
            Kind::Set => "bind: nothing carried",
            Kind::Put => "bind: stores indexed",
            Kind::Def => "bind: definitions indexed",
            Kind::Red | Kind::Scan => "bind: reductions combined",
        };
        if own_axes(nest, write.target) & bit(a.axis.0) != 0 || !enforced(conjunct) {
            return None;
        }
        let text = conflict(nest, write.target, write.kind, a, unit)?;
        let name = target_name(nest, write.target);
        let span = super::reorder::value_span(nest, write.target);
        let diagnostic = Diagnostic::new(SpanId::NONE, text).note(span, format!("`{name}` is written here"));
        Some(match (write.kind, write.target) {
            (Kind::Red, Target::Value(v)) if nest.is_carried(v) => diagnostic
                .remark("sum up one tile in a `let` of its own and add that: parts of it can be combined"),
            _ => diagnostic,
        })
    })
}

/// Why steps of `a`, taken at once, would clash on a name that lacks the axis.
fn conflict(nest: &Nest, target: Target, kind: Kind, a: Digit, unit: Unit) -> Option<String> {
    let (name, digit, axis) = (target_name(nest, target), nest.digit_name(a), nest.axis(a.axis));
    match (kind, target) {
        (Kind::Set, _) => Some(format!("`{name}` is carried from one step of `{digit}` to the next")),
        (Kind::Put, _) => Some(format!(
            "every step of `{digit}` stores the same elements of `{name}`: `{name}` is not indexed by `{axis}`"
        )),
        (Kind::Def, _) => Some(format!("every step of `{digit}` defines the same elements of `{name}`")),
        (Kind::Red, Target::Value(v)) if nest.is_carried(v) => Some(format!(
            "`{name}` is carried from tile to tile, and `{digit}` adds to it: {unit}s would each carry a part of it"
        )),
        (Kind::Red | Kind::Scan, Target::Value(v)) => {
            let over = match kind {
                Kind::Scan => "scanned along",
                _ => "reduced over",
            };
            let steps = match a.steps {
                Steps::Fixed(n) => n.to_string(),
                Steps::Rest => "all".into(),
            };
            let held = match unit {
                Unit::Block => {
                    return Some(format!(
                        "`{name}` is {over} `{axis}`: CTAs of the grid cannot combine their parts"
                    ));
                }
                Unit::Warpgroup => "warpgroups",
                Unit::Warp => "warps",
                Unit::Lane => "lanes",
                Unit::Thread => "threads",
            };
            match (nest.combine.get(&v), unit) {
                (Some(Level::Cta), _)
                | (Some(Level::Lane), Unit::Lane)
                | (Some(Level::Warp), Unit::Warp | Unit::Warpgroup) => None,
                (None, _) => Some(format!(
                    "`{name}` is {over} `{axis}`: each of {steps} {held} would hold a part of it, and nothing combines them"
                )),
                (Some(level), _) => Some(format!(
                    "`{name}` is {over} `{axis}` by {steps} {held}, but `reduce({name}: {level})` combines {level}s only"
                )),
            }
        }
        (Kind::Red | Kind::Scan, Target::Access(_)) => unreachable!("reductions go to values"),
    }
}

/// Why the parts of a reduction that loops bound already leave in units would not be combined.
pub(crate) fn uncombined(nest: &Nest, value: crate::nest::ValueId) -> Option<String> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let writes = matches!(leaf, Stmt::Red { value: v, .. } | Stmt::Scan { value: v, .. } if *v == value);
        found = found.take().or_else(|| {
            path.iter().filter(|_| writes).find_map(|frame| match frame {
                Frame::For(d, LoopKind::Unit(unit, _))
                    if *unit != Unit::Block
                        && nest.value(value).is_parted_by(d.axis)
                        && !nest.counts_tiles(*d) =>
                {
                    conflict(nest, Target::Value(value), Kind::of(leaf), *d, *unit)
                }
                _ => None,
            })
        });
    });
    found
}

/// What `reduce` a unit needs.
fn level(unit: Unit) -> Option<Level> {
    match unit {
        Unit::Block => None,
        Unit::Lane => Some(Level::Lane),
        Unit::Warp | Unit::Warpgroup => Some(Level::Warp),
        Unit::Thread => Some(Level::Cta),
    }
}

/// Proposes the `reduce(..)` that the reductions inside need.
fn with_reduce(nest: &Nest, failure: Failure, a: Digit, unit: Unit) -> Failure {
    let Some(wanted) = level(unit) else { return failure };
    let mut added: Vec<DirectiveKind> = Vec::new();
    leaves(&nest.body, &mut |path, leaf| {
        let inside = path.iter().any(|f| matches!(f, Frame::For(d, _) if *d == a));
        if let (Stmt::Red { value, .. } | Stmt::Scan { value, .. }, true) = (leaf, inside)
            && nest.value(*value).is_parted_by(a.axis)
            && !nest.is_carried(*value)
        {
            let wanted = match nest.combine.get(value) {
                Some(old) if *old != wanted => Level::Cta,
                _ => wanted,
            };
            let reduce = DirectiveKind::Reduce(directive::Reduce {
                value: nest.value(*value).name.clone(),
                level: wanted,
            });
            if nest.combine.get(value) != Some(&wanted) && !added.contains(&reduce) {
                added.push(reduce);
            }
        }
    });
    if added.is_empty() { failure } else { failure.edit(Edit::put(added)) }
}

/// The loop that has a copy moved outside of the loop at a place on a path, and of those between.
fn outside(nest: &Nest, path: &[Frame], here: usize) -> Option<Edit> {
    let copy = path.iter().skip(here).position(|f| matches!(f, Frame::Stage(_)))? + here;
    let names: Vec<String> = path[here..copy]
        .iter()
        .filter_map(|f| if let Frame::For(d, LoopKind::Seq) = f { Some(nest.digit_name(*d)) } else { None })
        .collect();
    let (last, others) = names.split_last()?;
    let digits = std::iter::once(last).chain(others).cloned().collect();
    (!others.is_empty()).then(|| Edit::put([directive::Reorder { digits, within: None }]))
}

/// Of a `let` between a loop and a copy inside of it, the value that keeps the loop outside: it lacks the axis.
fn without(nest: &Nest, path: &[Frame], a: Digit) -> Option<ValueId> {
    let inside = path.iter().take_while(|f| !matches!(f, Frame::Stage(_)));
    let values = inside.filter_map(|f| if let Frame::First(values) = f { Some(values) } else { None });
    values.flatten().copied().find(|v| !nest.value(*v).axes.contains(&a.axis))
}

/// Conditions on the term rather than on what it computes.
pub(crate) fn structure(nest: &Nest, name: &str, a: Digit, unit: Unit, dim: UnitDim) -> Result<(), Failure> {
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    if unit == Unit::Block {
        return match nest.kernel.axes[usize::from(a.axis.0)].kind {
            AxisKind::Program => Ok(()),
            _ => Err(refuse(format!(
                "`{}` is not a program axis: CTAs share out program tiles only",
                nest.axis(a.axis)
            ))
            .edit(
                Edit::instead([directive::SplitK {
                    digit: nest.axis(a.axis).to_string(),
                    parts: 4,
                    across: Across::Workspace,
                }])
                .remark("CTAs share the steps of a reduction"),
            )),
        };
    }
    let Steps::Fixed(steps) = a.steps else {
        let axis = nest.axis(a.axis);
        let failure = refuse(format!(
            "`{name}` has as many steps as `{axis}` has points: a CTA has a fixed number of {unit}s"
        ));
        let bind = |digit| DirectiveKind::Bind(directive::Bind { digit, unit, dim, xor: None });
        return Err(failure.edits(super::expand::split_first(nest, name, 32, bind)));
    };
    let mut problem = None;
    leaves(&nest.body, &mut |path, _| {
        let Some(here) = path.iter().position(|f| matches!(f, Frame::For(d, _) if *d == a)) else { return };
        let atom = path
            .iter()
            .find_map(|f| if let Frame::For(_, LoopKind::Atom(atom, _)) = f { Some(*atom) } else { None });
        let around = !matches!(path[here], Frame::For(_, LoopKind::Atom(..)));
        let scope = atom.filter(|_| around).map(|atom| (atom, atom.row().scope));
        let takes = match (scope, unit) {
            (Some((atom, Scope::Warp)), Unit::Lane) => Some((atom, "lanes of a warp", Unit::Warp)),
            (Some((atom, Scope::Warpgroup)), Unit::Lane | Unit::Warp) => {
                Some((atom, "warps of a warpgroup", Unit::Warpgroup))
            }
            _ => None,
        };
        if let Some((atom, all, wider)) = takes {
            problem.get_or_insert_with(|| {
                let bind = |dim| {
                    DirectiveKind::Bind(directive::Bind {
                        digit: name.to_string(),
                        unit: wider,
                        dim,
                        xor: None,
                    })
                };
                let units = [UnitDim::X, UnitDim::Y, UnitDim::Z].map(|dim| Edit::instead([bind(dim)]));
                refuse(format!("steps of `{name}` are instructions `{atom}`, each of which takes all {all}"))
                    .edits(units)
            });
        }
        for frame in &path[here..] {
            // A copy in registers is distributed: each thread holds what its own steps read.
            if let Frame::Stage(c) = frame
                && nest.copy(*c).space == Space::Shared
            {
                let tensor = nest.copy_name(*c);
                problem.get_or_insert_with(|| {
                    let failure = refuse(format!(
                        "`{tensor}` is staged inside the loop over `{name}`: each {unit} would copy it"
                    ))
                    .note(nest.copy(*c).span, format!("`{tensor}` is staged here"));
                    match without(nest, &path[here..], a) {
                        None => failure.edits(outside(nest, path, here)),
                        Some(value) => {
                            let (value, axis) = (nest.value(value), nest.axis(a.axis));
                            let note = format!(
                                "`{}`, computed in the same loop, has no axis `{axis}`: the loop over `{name}` stands around both",
                                value.name
                            );
                            let apart = "where `tile` makes it, it goes around each statement that has the axis";
                            let alone = Edit::remove().remark("each step then has a copy of its own");
                            failure.note(value.span, note).remark(apart).edits([alone])
                        }
                    }
                });
            }
        }
        for frame in path {
            if let Frame::For(other, LoopKind::Unit(u, d)) = frame
                && (*u, *d) == (unit, dim)
                && *other != a
            {
                let other = nest.digit_name(*other);
                problem.get_or_insert_with(|| {
                    let text = format!("{unit}.{dim} is taken by `{other}` in the same loops: two loops cannot share a unit dimension");
                    let free = [UnitDim::X, UnitDim::Y, UnitDim::Z]
                        .into_iter()
                        .find(|d| !loops(&nest.body).iter().any(|(_, at)| *at == LoopKind::Unit(unit, *d)));
                    let bind = |dim| DirectiveKind::Bind(directive::Bind { digit: name.to_string(), unit, dim, xor: None });
                    refuse(text).edits(free.map(|free| Edit::instead([bind(free)])))
                });
            }
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    for (other, at) in loops(&nest.body) {
        let LoopKind::Unit(u, d) = at else { continue };
        let mixed = matches!(
            (u, unit),
            (Unit::Thread, Unit::Warpgroup | Unit::Warp | Unit::Lane)
                | (Unit::Warpgroup | Unit::Warp | Unit::Lane, Unit::Thread)
        );
        if mixed {
            return Err(refuse(format!(
                "`{}` is bound to {u}.{d}: a kernel addresses its threads either as `thread` or as `warp` and `lane`",
                nest.digit_name(other)
            )));
        }
        if (u, d) == (unit, dim) && other != a && other.steps != a.steps {
            return Err(refuse(format!(
                "`{name}` has {steps} steps, but `{}`, bound to {unit}.{dim} in another statement, has {}",
                nest.digit_name(other),
                other.steps
            )));
        }
    }
    Ok(())
}
