//! `tile`: split an axis at its tile, move the tile loop outward, give each statement its own in-tile loop.
//!
//! ```text
//! (for i X)  →  (for i.o (for i.t X)), then reorder and fission:
//! (for i.o (for i.t (let [v] P Q)))  →  (for i.o (let [v] (for i.t P) (for i.t Q)))
//! ```
//! Outer digits of program axes stand outermost, in the order of the kernel; then the tile loops of other
//! axes; then in-tile digits. Conditions are those of `split`, `reorder` and of the rules of `fission`; where none of
//! them is legal the in-tile loop stays around the `let`. Where the kernel sees the tiles of the axis, see `recurrence`.
//! Cost: none by itself. The tile is what a CTA, or a step of the loop over tiles, works on.

use super::prelude::*;
use crate::{
    engine::{
        facts::{Graph, digit},
        families::{FailureKind, fission, recurrence, reorder, solve, split, with_body},
        language::Node,
        names,
        phase::Redex,
    },
    nest::{Digit, Steps, loops},
    tile::AxisKind,
};

directive! {
    /// `tile(i = 128)`: split into `i.o` and `i.t`, `i.o` outward; a program axis' `i.o` is bound to CTAs.
    "tile(i = 32, j = 32)" in Tile, 0:
    Tile { axis: String, size: u32 } => |s| s.each(axis, "an axis").mark("=").number(size)
}

impl Definition for Tile {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        apply(nest, &self.axis, self.size)
    }

    fn gives(&self) -> Vec<Name> {
        Name::loops_of(&self.axis)
    }
}

impl Drawn for Tile {}

/// That a tile has a size that loops can have.
pub(super) fn in_range(axis: &str, size: u32) -> Result<(), Failure> {
    if size == 0 || size > 1 << 20 {
        return Err(Failure::refused(Diagnostic::new(
            SpanId::NONE,
            format!("a tile of {size} points of `{axis}` is not between 1 and 2²⁰"),
        )));
    }
    Ok(())
}

/// `tile(axis = size)`.
pub(super) fn apply(nest: &Nest, axis: &str, size: u32) -> Result<(Nest, Proof), Failure> {
    let id = names::axis(nest, axis)?;
    in_range(axis, size)?;
    if nest.recurrences.contains_key(&id) {
        return recurrence::size(nest, id, size);
    }
    let (outer_name, inner_name) = (crate::nest::over_tiles(axis), crate::nest::in_tile(axis));
    if nest.names.contains_key(&outer_name) {
        return Err(Failure::refused(Diagnostic::new(SpanId::NONE, format!("`{axis}` is tiled already")))
            .edit(Edit::remove()));
    }
    let whole = nest.names[axis];
    let (outer, inner) = whole.cut(size);
    let mut names = nest.names.clone();
    names.insert(outer_name, outer);
    names.insert(inner_name, inner);
    let start = if outer == inner {
        // One tile of one point.
        with_body(nest, nest.body.clone())
    } else if outer == whole {
        // ⌈n / 1⌉ steps of 1 point: the loop is its own tile loop.
        with_body(nest, split::inside(&nest.body, inner, whole))
    } else if inner == whole {
        // One tile holds the whole axis: the loop is its own in-tile loop.
        with_body(nest, split::around(&nest.body, outer, whole))
    } else {
        nest.clone()
    };
    let cuts = outer != whole && inner != whole;
    let order = canonical(nest, &names);
    let place = |d: Digit| order.iter().position(|o| *o == d);
    let inverted = |a: Digit, b: Digit| matches!((place(a), place(b)), (Some(a), Some(b)) if a > b);
    let in_tile: Vec<Digit> = order.iter().copied().filter(|d| is_in_tile(&names, nest, *d)).collect();

    let mut rules = vec![reorder::rule(|_, _, a, b| inverted(a, b))];
    if cuts {
        rules.push(split::rule(whole, vec![outer, inner]));
    }
    rules.extend(in_tile.iter().flat_map(|d| fission::rules(*d)));
    let redex = |graph: &Graph, node: &Node, below: &[&Node]| match (node, below) {
        (Node::For(_), [Node::Digit(d), _, body]) => match body {
            Node::For([b, ..]) if inverted(*d, digit(graph, *b)) => Redex::Hard,
            Node::Let(_) if in_tile.contains(d) => Redex::Soft,
            _ if *d == whole && cuts => Redex::Hard,
            _ => Redex::No,
        },
        _ => Redex::No,
    };
    let absent = || Failure::no_match(format!("there is no loop over `{axis}`"));
    let unmet = || Failure::unmet(format!("the tile loop of `{axis}` could not be moved outward"));
    let (body, mut proof) = match solve(&start, &rules, &redex, absent, unmet) {
        // Nothing to cut and nothing to move.
        Err(failure)
            if failure.kind == FailureKind::NoMatch && loops(&nest.body).iter().any(|(d, _)| *d == whole) =>
        {
            (start.body.clone(), Proof::default())
        }
        solved => solved?,
    };
    let extent = &nest.kernel.axes[usize::from(id.0)].extent;
    proof.facts.push(match whole.steps {
        Steps::Fixed(n) if n % size == 0 => format!("{size} divides the {n} points of `{axis}`"),
        _ => format!("points of `{axis}` at or beyond {extent} are guarded"),
    });
    Ok((Nest { names, ..with_body(nest, body) }, proof))
}

/// Outer digits of program axes, tile loops of other axes, then in-tile digits, each in kernel order.
fn canonical(nest: &Nest, names: &std::collections::BTreeMap<String, Digit>) -> Vec<Digit> {
    let (mut outer, mut tiles, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for axis in &nest.kernel.axes {
        let program = axis.kind == AxisKind::Program;
        match (names.get(&crate::nest::over_tiles(&axis.name)), names.get(&crate::nest::in_tile(&axis.name)))
        {
            (Some(o), Some(t)) => {
                if program { &mut outer } else { &mut tiles }.push(*o);
                inner.push(*t);
            }
            _ if program => outer.push(names[&axis.name]),
            _ => inner.push(names[&axis.name]),
        }
    }
    outer.into_iter().chain(tiles).chain(inner).collect()
}

fn is_in_tile(names: &std::collections::BTreeMap<String, Digit>, nest: &Nest, digit: Digit) -> bool {
    let axis = nest.axis(digit.axis);
    names.get(&crate::nest::in_tile(axis)) == Some(&digit)
}
