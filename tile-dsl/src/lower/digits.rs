//! The environment: which digits the enclosing loops bind, and what each contributes to its axis.

use super::{Lowerer, linear::Linear};
use crate::{
    index::{Affine, AxisId},
    kernel::Var,
    nest::{Digit, Ends, LoopKind, ends},
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
        match ends(self.nest, axis, digits) {
            Ends::Always => false,
            Ends::Never => true,
            Ends::Multiple(_) | Ends::Points(_) => self.variant != Variant::Exact,
        }
    }
}
