//! Limits: the loops that leave out tiles without points.
//!
//! Whoever uses a point of an axis with limits masks it, so a tile without points changes nothing, and the outermost loop at run time
//! over the axis starts and ends where the rows at hand have points. Most tiles between have points alone: for them a text without masks
//! stands beside that for the others.

use crate::{
    index::AxisId,
    nest::{Digit, Expr, Frame, Limits, LoopKind, Nest, Steps, Target, ValueId, leaves},
    op::{BinOp, CmpOp},
    tile::Edge,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What loops over axes with limits do, by axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limited {
    axes: BTreeMap<AxisId, Result<BTreeSet<Digit>, Unskipped>>,
    /// Loops that run backwards for some tiles: steps in the middle are others then.
    backwards: BTreeSet<Digit>,
    /// Conditions that hold at each point of a tile whose points all count for all rows at hand.
    masks: BTreeMap<AxisId, Vec<Expr>>,
}

/// Why all tiles are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unskipped {
    /// Groups that take turns count the steps of one another's tiles by their own.
    Turns,
    /// A value along the axis outlives the loop that computes it.
    Outlives(ValueId),
    /// A loop over tiles of it stands inside of one over the points of a tile.
    Within,
    /// No loop over it runs.
    Unlooped,
}

impl Limited {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Limited {
        let of = |axis: AxisId| {
            let loops = outermost_loops(nest, axis).ok_or(Unskipped::Within)?;
            if loops.is_empty() {
                return Err(Unskipped::Unlooped);
            }
            if nest.pingpong.is_some() {
                return Err(Unskipped::Turns);
            }
            match outlives(nest, &loops) {
                Some(value) => Err(Unskipped::Outlives(value)),
                None => Ok(loops),
            }
        };
        let axes = nest.limits.keys().map(|axis| (*axis, of(*axis))).collect();
        let masks = nest.limits.iter().map(|(axis, limits)| (*axis, masks(nest, *axis, limits)));
        Limited { axes, backwards: nest.alternate.clone(), masks: masks.collect() }
    }

    /// Whether a loop over a digit leaves tiles without points out.
    pub fn skips(&self, digit: Digit) -> bool {
        matches!(self.axes.get(&digit.axis), Some(Ok(loops)) if loops.contains(&digit))
    }

    /// Whether the loop over a digit has a text for tiles that no limit cuts beside that for others: there is something to mask.
    pub fn parts(&self, digit: Digit) -> bool {
        let forwards = !self.backwards.contains(&digit);
        forwards && self.skips(digit) && self.masks.get(&digit.axis).is_some_and(|masks| !masks.is_empty())
    }

    /// Whether a condition says that points of an axis count, and nothing else.
    pub fn is_mask(&self, axis: AxisId, condition: &Expr) -> bool {
        self.masks.get(&axis).is_some_and(|masks| masks.contains(condition))
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        for (axis, loops) in &self.axes {
            write!(out, "limits {}: ", nest.axis(*axis))?;
            match loops {
                Ok(loops) => {
                    let names: Vec<String> = loops.iter().map(|digit| nest.digit_name(*digit)).collect();
                    writeln!(out, "{} without points left out", names.join(", "))?;
                }
                Err(Unskipped::Turns) => writeln!(out, "all tiles, as groups alternate")?,
                Err(Unskipped::Outlives(value)) => {
                    writeln!(out, "all tiles, as {} outlives its loop", nest.value(*value).name)?;
                }
                Err(Unskipped::Within) => {
                    writeln!(out, "all tiles, as their loop is inside of one over points")?
                }
                Err(Unskipped::Unlooped) => writeln!(out, "no loop at run time")?,
            }
        }
        Ok(())
    }
}

/// The comparisons of a nest with the limits of an axis, as they are written: limits may be values that the nest computes before.
fn masks(nest: &Nest, axis: AxisId, limits: &Limits) -> Vec<Expr> {
    let defined = nest.definitions();
    let (first, end) = (Expr::Edge(axis, Edge::First), Expr::Edge(axis, Edge::End));
    let cmp = |op: CmpOp, a: Expr, b: Expr| Expr::Cmp(op, Box::new(a), Box::new(b));
    let bin = |op: BinOp, a: &Expr, b: Expr| Expr::Bin(op, Box::new(a.clone()), Box::new(b));
    let mut wanted = Vec::new();
    wanted.extend(limits.from.as_ref().map(|from| cmp(CmpOp::Ge, Expr::Iota(axis), from.clone())));
    wanted.extend(limits.to.as_ref().map(|to| cmp(CmpOp::Lt, Expr::Iota(axis), to.clone())));
    wanted.push(match (&limits.from, &limits.to) {
        (Some(from), Some(to)) => cmp(CmpOp::Lt, bin(BinOp::Max, from, first), bin(BinOp::Min, to, end)),
        (Some(from), None) => cmp(CmpOp::Lt, from.clone(), end),
        (None, Some(to)) => cmp(CmpOp::Lt, first, to.clone()),
        (None, None) => return Vec::new(),
    });
    let mut found = Vec::new();
    leaves(&nest.body, &mut |_, leaf| {
        let Some((_, expr)) = leaf.leaf() else { return };
        expr.visit(&mut |e| {
            let compares = matches!(e, Expr::Cmp(CmpOp::Ge | CmpOp::Lt, ..));
            if compares && !found.contains(e) && wanted.contains(&e.inlined(&defined)) {
                found.push(e.clone());
            }
        });
    });
    found
}

/// The first loop at run time over an axis, on each path; none where loops inside of one go further than a step of it does: its steps
/// are no tiles.
fn outermost_loops(nest: &Nest, axis: AxisId) -> Option<BTreeSet<Digit>> {
    let (mut found, mut are_tiles) = (BTreeSet::new(), true);
    leaves(&nest.body, &mut |path, _| {
        let runs = |(digit, at): &(Digit, LoopKind)| match at {
            LoopKind::Seq => digit.steps != Steps::Fixed(1),
            LoopKind::Pipe(_) => true,
            _ => false,
        };
        let mut own = crate::nest::steps(nest, path);
        own.retain(|(digit, _)| digit.axis == axis);
        let Some(at) = own.iter().position(runs) else { return };
        let (digit, inside) = (own[at].0, &own[at + 1..]);
        found.insert(digit);
        are_tiles &= inside.iter().all(|(d, _)| d.stride < digit.stride || d.steps == Steps::Fixed(1));
    });
    are_tiles.then_some(found)
}

/// A value along an axis whose `let` is around one of these loops over it that computes it: where a tile was left out, readers would
/// find what nothing has computed.
fn outlives(nest: &Nest, loops: &BTreeSet<Digit>) -> Option<ValueId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some((Target::Value(value), _)) = leaf.leaf() else { return };
        let Some(over) = path.iter().position(|f| f.step().is_some_and(|(d, _)| loops.contains(&d))) else {
            return;
        };
        let axis = loops.first().map(|digit| digit.axis);
        let along = axis.is_some_and(|axis| nest.value(value).axes.contains(&axis));
        let around = path[..over].iter().any(|f| matches!(f, Frame::First(vs) if vs.contains(&value)));
        if along && around {
            found.get_or_insert(value);
        }
    });
    found
}
