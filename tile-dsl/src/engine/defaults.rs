//! What a schedule leaves unsaid, made explicit in the nest, so that `--emit nest` shows it.
//!
//! In this order:
//! 1. loops of one step are dropped, unless one is all that stands for an axis that may be empty;
//! 2. the outermost digit of each program axis is bound to CTAs of the grid;
//! 3. a plain loop over a digit that indexes a value in registers is unrolled, because a register cannot be
//!    indexed at run time. A reduction accumulates in registers even if its result is held in shared memory.
//!    The same goes for a loop that indexes a `fragment`.

use super::{
    facts::{Graph, at, digit, effects},
    failure::Failure,
    families::{bind, solve, with_body},
    language::Node,
    phase::Redex,
    rule::{Rule, Verdict, get, patterns, set},
};
use crate::{
    index::AxisId,
    nest::{
        Digit, Frame, LoopKind, Nest, Placement, Steps, Stmt, Target, ValueId, leaves, loops, with_paths,
    },
    schedule::{Space, Unit, UnitDim},
    tile::AxisKind,
};
use std::collections::BTreeSet;

patterns! {
    LOOP = "(for ?#0 ?#1 ?#2)";
    UNROLLED = "(for ?#0 ?#3 ?#2)";
}

/// Applies the defaults.
pub(super) fn apply(nest: &Nest) -> Result<Nest, Failure> {
    let nest = with_body(nest, without_single_steps(nest, &nest.body, &mut Vec::new()));
    let nest = bind_grid(nest)?;
    unroll_register_indices(nest)
}

/// `(for a t X) → X` where `a` has one step: it adds 0 to its axis. Where no other loop over an axis of symbolic extent is
/// around or inside, the loop stays: it is what says that the axis may have no point at all.
fn without_single_steps(nest: &Nest, stmt: &Stmt, around: &mut Vec<AxisId>) -> Stmt {
    match stmt {
        Stmt::For { digit, at, body } => {
            let single = digit.steps == Steps::Fixed(1);
            let known = nest.kernel.axes[usize::from(digit.axis.0)].extent.as_constant().is_some();
            let told = known || around.contains(&digit.axis) || everywhere(digit.axis, body);
            if !single || !told {
                around.push(digit.axis);
            }
            let inner = without_single_steps(nest, body, around);
            if !single || !told {
                around.pop();
            }
            // A copy belongs to the loop around it, which may then be another one.
            if single && told && !matches!(inner, Stmt::Stage { .. }) {
                return inner;
            }
            Stmt::For { digit: *digit, at: *at, body: Box::new(inner) }
        }
        other => other.map(&mut |part| without_single_steps(nest, part, around)),
    }
}

/// Whether a loop of several steps over an axis is around each statement inside.
fn everywhere(axis: AxisId, stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { digit, .. } if digit.axis == axis && digit.steps != Steps::Fixed(1) => true,
        // Where nothing is inside, nothing could depend on how many points the axis has.
        other => other.leaf().is_none() && other.parts().all(|part| everywhere(axis, part)),
    }
}

/// The outermost digit of each program axis, if it is a plain loop, is bound to CTAs.
///
/// The grid is one-dimensional: the dimension records the position among the program axes, last is x, and
/// axes beyond three share z.
fn bind_grid(mut nest: Nest) -> Result<Nest, Failure> {
    let program: Vec<u16> = (0..nest.kernel.axes.len() as u16)
        .filter(|n| nest.kernel.axes[usize::from(*n)].kind == AxisKind::Program)
        .collect();
    for (n, axis) in program.iter().rev().enumerate() {
        let dim = [UnitDim::X, UnitDim::Y, UnitDim::Z][n.min(2)];
        let outermost = loops(&nest.body)
            .into_iter()
            .filter(|(d, _)| d.axis.0 == *axis)
            .max_by_key(|(d, _)| (d.stride, d.steps));
        if let Some((digit, LoopKind::Seq)) = outermost {
            let covers = match digit.steps {
                Steps::Rest => true,
                // A tile of a fixed axis: bound to the grid unless it is an in-tile digit.
                Steps::Fixed(_) => !is_in_tile(&nest, digit),
            };
            if covers {
                let name = nest.digit_name(digit);
                nest = bind::bind_digit(&nest, &name, digit, Unit::Block, dim)?.0;
            }
        }
    }
    Ok(nest)
}

/// Whether a digit lies inside the tile of its axis.
fn is_in_tile(nest: &Nest, digit: Digit) -> bool {
    match nest.names.get(&crate::nest::in_tile(nest.axis(digit.axis))) {
        Some(Digit { steps: Steps::Fixed(n), .. }) => digit.stride < *n,
        _ => false,
    }
}

/// Digits that index what is read from a copy in registers: loops inside it over axes of its tensor.
fn fragment_indices(nest: &Nest) -> BTreeSet<Digit> {
    let mut found = BTreeSet::new();
    leaves(&nest.body, &mut |path, leaf| {
        let accesses = leaf.leaf().expect("a leaf").1.accesses();
        for (n, frame) in path.iter().enumerate() {
            let Frame::Stage(c) = frame else { continue };
            let copy = nest.copy(*c);
            if copy.space != Space::Register {
                continue;
            }
            let read = accesses.iter().map(|a| nest.access(*a)).filter(|a| copy.serves(a));
            let axes: BTreeSet<_> =
                read.flat_map(|a| a.index.iter().flat_map(|i| i.terms.keys().copied())).collect();
            found.extend(path[n..].iter().filter_map(|f| match f {
                Frame::For(d, LoopKind::Seq) if axes.contains(&d.axis) => Some(*d),
                _ => None,
            }));
        }
    });
    found
}

/// Plain loops over a fixed digit that indexes a register value held across it become `#unroll`.
fn unroll_register_indices(nest: Nest) -> Result<Nest, Failure> {
    // A value held across a digit: some loop over the digit is inside the value's let.
    let mut held: BTreeSet<(Digit, ValueId)> = BTreeSet::new();
    with_paths(&nest.body, &mut |path, stmt| {
        let Stmt::For { digit, .. } = stmt else { return };
        for frame in path {
            if let Frame::First(values) | Frame::Rest(values) = frame {
                let indexed = values.iter().filter(|v| nest.value(**v).axes.contains(&digit.axis));
                held.extend(indexed.map(|v| (*digit, *v)));
            }
        }
    });
    let fragments = fragment_indices(&nest);
    let indexes = |graph: &Graph, d: Digit, body: egg::Id| {
        let facts = effects(graph, body);
        fragments.contains(&d)
            || held.iter().filter(|(h, _)| *h == d).any(|(_, v)| {
                let value = graph.analysis.nest.value(*v);
                let register = value.placement == Placement::Register;
                let written = facts.writes.iter().any(|w| w.target == Target::Value(*v));
                written && (register || value.combined_by().is_some())
                    || register && facts.values & super::language::bit(v.0) != 0
            })
    };
    let fixed = |d: Digit| matches!(d.steps, Steps::Fixed(_));
    let rules = [Rule::new("unroll", &LOOP, &UNROLLED, |graph, subst| {
        let d = digit(graph, get(subst, 0));
        if at(graph, get(subst, 1)) != LoopKind::Seq || !fixed(d) || !indexes(graph, d, get(subst, 2)) {
            return Verdict::Skip;
        }
        let to = graph.add(Node::LoopKind(LoopKind::Unroll));
        set(subst, 3, to);
        Verdict::Apply
    })];
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For([_, _, body]), [Node::Digit(d), Node::LoopKind(LoopKind::Seq), _])
            if fixed(*d) && indexes(graph, *d, *body) =>
        {
            Redex::Hard
        }
        _ => Redex::No,
    };
    let none = || Failure::no_match("");
    match solve(&nest, &rules, &redex, none, || Failure::unmet("a loop over registers could not be unrolled"))
    {
        Ok((body, _)) => Ok(with_body(&nest, body)),
        Err(f) if f.kind == super::FailureKind::NoMatch => Ok(nest),
        Err(f) => Err(f),
    }
}
