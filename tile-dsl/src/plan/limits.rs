//! Limits: the loops that leave out tiles without points.
//!
//! Whoever uses a point of an axis with limits masks it, so a tile without points changes nothing, and the outermost loop at run time
//! over the axis starts and ends where the rows at hand have points.

use crate::{
    index::AxisId,
    nest::{Digit, Expr, Frame, LoopKind, Nest, Steps, Stmt, ValueId, leaves},
    op::BinOp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What loops over axes with limits do, by axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limited {
    axes: BTreeMap<AxisId, Result<BTreeSet<Digit>, Unskipped>>,
}

/// Why all tiles are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unskipped {
    /// Groups that take turns count the steps of one another's tiles by their own.
    Turns,
    /// A value along the axis outlives its loop, and is a factor that nothing masks.
    Outlives(ValueId),
    /// No loop over it runs.
    Unlooped,
}

impl Limited {
    /// Those of a nest.
    pub fn of(nest: &Nest) -> Limited {
        let of = |axis: AxisId| match (nest.pingpong, outlives(nest, axis)) {
            (Some(_), _) => Err(Unskipped::Turns),
            (None, Some(value)) => Err(Unskipped::Outlives(value)),
            (None, None) => {
                let loops = outermost_loops(nest, axis);
                if loops.is_empty() { Err(Unskipped::Unlooped) } else { Ok(loops) }
            }
        };
        Limited { axes: nest.limits.keys().map(|axis| (*axis, of(*axis))).collect() }
    }

    /// Whether a loop over a digit leaves tiles without points out.
    pub fn skips(&self, digit: Digit) -> bool {
        matches!(self.axes.get(&digit.axis), Some(Ok(loops)) if loops.contains(&digit))
    }

    pub(super) fn write(&self, nest: &Nest, out: &mut dyn fmt::Write) -> fmt::Result {
        for (axis, loops) in &self.axes {
            write!(out, "limits {}: ", nest.axis(*axis))?;
            match loops {
                Ok(loops) => {
                    let names: Vec<String> = loops.iter().map(|digit| nest.digit_name(*digit)).collect();
                    writeln!(out, "{} without points left out", names.join(", "))?;
                }
                Err(Unskipped::Turns) => writeln!(out, "all tiles, as groups take turns")?,
                Err(Unskipped::Outlives(value)) => {
                    writeln!(out, "all tiles, as {} outlives its loop", nest.value(*value).name)?;
                }
                Err(Unskipped::Unlooped) => writeln!(out, "no loop at run time")?,
            }
        }
        Ok(())
    }
}

/// The first loop at run time over an axis, on each path.
fn outermost_loops(nest: &Nest, axis: AxisId) -> BTreeSet<Digit> {
    let mut found = BTreeSet::new();
    leaves(&nest.body, &mut |path, _| {
        let runs = |(digit, at): &(Digit, LoopKind)| {
            digit.axis == axis
                && match at {
                    LoopKind::Seq => digit.steps != Steps::Fixed(1),
                    LoopKind::Pipe(_) => true,
                    _ => false,
                }
        };
        found.extend(crate::nest::steps(nest, path).iter().find(|step| runs(step)).map(|(digit, _)| *digit));
    });
    found
}

/// A value along an axis whose `let` is around a loop over it, and which a product over the axis reads without a mask: where a tile
/// was left out, nothing has computed it.
fn outlives(nest: &Nest, axis: AxisId) -> Option<ValueId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Stmt::Red { value, expr, .. } = leaf else { return };
        if nest.value(*value).axes.contains(&axis) {
            return;
        }
        let Some(over) = path.iter().position(|f| f.step().is_some_and(|(d, _)| d.axis == axis)) else {
            return;
        };
        let around = |v: &ValueId| path[..over].iter().any(|f| matches!(f, Frame::Rest(vs) if vs.contains(v)));
        for side in unmasked(expr) {
            let along = side.values().into_iter().find(|v| nest.value(*v).axes.contains(&axis) && around(v));
            found = found.or(along);
        }
    });
    found
}

/// The parts of a contribution that no `select` masks.
fn unmasked(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Select(..) => vec![],
        Expr::Bin(BinOp::Mul, a, b) => [unmasked(a), unmasked(b)].concat(),
        Expr::Cast(_, inner) | Expr::Un(_, inner) => unmasked(inner),
        other => vec![other],
    }
}
