//! The environment: which digits the enclosing loops bind, and what each contributes to its axis.

use super::{Lowerer, linear::Linear};
use crate::{
    index::{Affine, AxisId, Extent},
    kernel::Var,
    nest::{Digit, LoopKind, Steps},
    program::Variant,
};

/// A digit bound by an enclosing loop.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub digit: Digit,
    pub at: LoopKind,
    /// Its contribution in points of the axis: a number where the loop is expanded.
    pub value: Linear,
}

/// A loop at run time that runs backwards for some tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    pub digit: Digit,
    /// Points of the steps before the current one, whichever way the loop runs.
    pub passed: Var,
}

impl Bound {
    /// The contribution, where the loop is expanded.
    pub fn fixed(&self) -> Option<i64> {
        self.value.terms.is_empty().then_some(self.value.constant)
    }
}

impl Lowerer<'_> {
    /// Of a loop at run time, the points of the steps before the current one, whichever way it runs.
    pub fn passed(&self, bound: &Bound) -> Linear {
        match self.passing.iter().rev().find(|p| p.digit == bound.digit) {
            Some(passing) => Linear::var(passing.passed),
            None => bound.value.clone(),
        }
    }

    /// Value of an axis: what the digits bound at `from` and inside contribute.
    pub fn axis_from(&self, axis: AxisId, from: usize) -> Linear {
        let mut sum = Linear::default();
        for bound in self.stack[from..].iter().filter(|b| b.digit.axis == axis) {
            sum.add_scaled(&bound.value, 1);
        }
        sum
    }

    /// Value of an index without its constant, from the digits bound at `from` and inside.
    pub fn index_from(&self, index: &Affine, from: usize) -> Linear {
        let mut sum = Linear::default();
        for (axis, c) in &index.terms {
            sum.add_scaled(&self.axis_from(*axis, from), *c);
        }
        sum
    }

    /// Value of an index.
    pub fn index(&self, index: &Affine) -> Linear {
        let mut sum = self.index_from(index, 0);
        sum.constant += index.constant;
        sum
    }

    /// Digits bound by the enclosing loops.
    pub fn digits(&self) -> Vec<Digit> {
        self.stack.iter().map(|b| b.digit).collect()
    }

    /// Whether these digits reach points at or beyond the extent of the axis.
    pub fn ragged(&self, axis: AxisId, digits: &[Digit]) -> bool {
        match cover(axis, digits) {
            // Steps of one point stop at the extent.
            Cover::Multiple(1) => false,
            cover => match (self.kernel.axes[axis.0 as usize].extent.as_constant(), cover) {
                (Some(n), Cover::Multiple(s)) => n % s != 0,
                (Some(n), Cover::Points(points)) => n != points,
                (None, _) => self.variant != Variant::Exact,
            },
        }
    }
}

/// The points of an axis that digits reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// The extent rounded up to a multiple.
    Multiple(i64),
    /// A fixed number.
    Points(i64),
}

/// The points of an axis that digits reach.
pub(super) fn cover(axis: AxisId, digits: &[Digit]) -> Cover {
    let mut points = 1;
    for digit in digits.iter().filter(|d| d.axis == axis) {
        match digit.steps {
            Steps::Rest => return Cover::Multiple(digit.stride.into()),
            Steps::Fixed(n) => points += i64::from(digit.stride) * (i64::from(n) - 1),
        }
    }
    Cover::Points(points)
}

/// Whether loops over digits of an axis take steps that start at or beyond its extent, in any variant.
pub(super) fn oversteps(extent: &Extent, axis: AxisId, digits: &[Digit]) -> bool {
    let own = |d: &&Digit| d.axis == axis && d.steps != Steps::Fixed(1);
    let own: Vec<&Digit> = digits.iter().filter(own).collect();
    let last: Option<i64> = own
        .iter()
        .map(|d| match d.steps {
            Steps::Fixed(n) => Some(i64::from(d.stride) * (i64::from(n) - 1)),
            Steps::Rest => None,
        })
        .sum();
    match (own.as_slice(), last, extent.as_constant()) {
        // It runs as long as it is inside.
        ([single], _, _) if single.steps == Steps::Rest => false,
        (_, Some(last), Some(points)) => last >= points,
        _ => true,
    }
}
