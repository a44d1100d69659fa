//! Results in f64 with their error bounds, and the comparison of a run with them.

use super::Elements;
use crate::dtype::{DType, Float};

/// One tensor computed in f64.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Type of the tensor's elements.
    pub dtype: DType,
    /// Values, row-major, not rounded.
    pub values: Vec<f64>,
    /// Magnitudes: for a dot, the dot of the absolute values.
    pub magnitudes: Vec<f64>,
    /// Rounding steps on the longest path to an element: K for a dot over K points.
    pub steps: u64,
}

/// How a run compares with a [`Reference`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Largest |c − ref| ∕ bound; a run is verified if this is at most 1. Infinite where NaN meets a number.
    pub error_bound_ratio: f64,
    /// Largest |c − ref| ∕ |ref| over elements with ref ≠ 0.
    pub max_rel_error: f64,
    /// Position of the largest ratio; `None` without elements.
    pub worst: Option<usize>,
}

impl Comparison {
    /// Nothing compared yet.
    pub const EMPTY: Comparison = Comparison { error_bound_ratio: 0.0, max_rel_error: 0.0, worst: None };

    /// Takes one more element into account. A NaN agrees with a NaN only.
    pub fn element(&mut self, at: usize, found: f64, expected: f64, bound: f64) {
        let agree = found == expected || (found.is_nan() && expected.is_nan());
        let error = if agree { 0.0 } else { (found - expected).abs() };
        let ratio = if agree { 0.0 } else { error / bound };
        let ratio = if ratio.is_nan() { f64::INFINITY } else { ratio };
        if self.worst.is_none() || ratio > self.error_bound_ratio {
            self.error_bound_ratio = ratio;
            self.worst = Some(at);
        }
        if expected != 0.0 && !agree {
            let relative = error / expected.abs();
            self.max_rel_error =
                if relative.is_nan() { f64::INFINITY } else { self.max_rel_error.max(relative) };
        }
    }

    /// Both comparisons in one.
    pub fn merge(self, other: Comparison) -> Comparison {
        let worse = if other.error_bound_ratio > self.error_bound_ratio || self.worst.is_none() {
            other
        } else {
            self
        };
        Comparison { max_rel_error: self.max_rel_error.max(other.max_rel_error), ..worse }
    }

    /// Whether every element is within its bound.
    pub fn verified(&self) -> bool {
        self.error_bound_ratio <= 1.0
    }
}

/// Unit roundoff of f32 arithmetic.
pub const U: f64 = 1.0 / (1u32 << 24) as f64;

/// Half a unit in the last place of `dtype` at `x`.
pub fn half_ulp(dtype: DType, x: f64) -> f64 {
    dtype.float().map_or(0.0, |float| (float.roundoff() * x.abs()).max(float.min_subnormal() / 2.0))
}

fn largest(dtype: DType) -> f64 {
    dtype.float().map_or(i32::MAX.into(), Float::max)
}

impl Reference {
    pub(super) fn new(dtype: DType, elements: &[(f64, f64)], steps: u64) -> Self {
        let (values, magnitudes) = elements.iter().copied().unzip();
        Reference { dtype, values, magnitudes, steps }
    }

    /// γ·(steps + 1)·u·magnitude + ½ ulp of the element type, with u = 2⁻²⁴. Integers are exact.
    pub fn bound(&self, at: usize, gamma: f64) -> f64 {
        if !self.dtype.is_float() {
            return 0.0;
        }
        gamma * (self.steps + 1) as f64 * U * self.magnitudes[at] + half_ulp(self.dtype, self.values[at])
    }

    /// Compares a run's elements with these. One whose magnitude is infinite may be anything.
    ///
    /// # Panics
    /// If the number of elements differs.
    pub fn compare(&self, actual: &Elements, gamma: f64) -> Comparison {
        assert_eq!(actual.len(), self.values.len(), "tensors of one shape are compared");
        let mut result = Comparison::EMPTY;
        for (at, (found, expected)) in actual.to_f64().into_iter().zip(&self.values).enumerate() {
            let bound = self.bound(at, gamma);
            let undefined = self.magnitudes[at] == f64::INFINITY;
            let overflows = found.is_infinite()
                && found.is_sign_positive() == expected.is_sign_positive()
                && expected.abs() + bound >= largest(self.dtype);
            result.element(at, found, if overflows || undefined { found } else { *expected }, bound);
        }
        result
    }
}
