//! Affine index expressions over kernel variables, their constant parts kept apart.
//!
//! Keeping the constant apart makes the accesses of an unrolled loop one base plus constants.

use crate::kernel::Var;
use std::collections::BTreeMap;

/// `constant + Σ coefficient · variable`, `i32`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Linear {
    /// Variables with non-zero coefficients.
    pub terms: BTreeMap<Var, i64>,
    /// Constant part.
    pub constant: i64,
}

impl Linear {
    pub fn constant(constant: i64) -> Self {
        Linear { terms: BTreeMap::new(), constant }
    }

    pub fn var(var: Var) -> Self {
        Linear { terms: [(var, 1)].into(), constant: 0 }
    }

    /// Adds `factor · other`.
    pub fn add_scaled(&mut self, other: &Linear, factor: i64) {
        self.constant += factor * other.constant;
        for (var, c) in &other.terms {
            let sum = self.terms.entry(*var).or_insert(0);
            *sum += factor * c;
            if *sum == 0 {
                self.terms.remove(var);
            }
        }
    }

    pub fn scaled(&self, factor: i64) -> Self {
        let mut out = Linear::default();
        out.add_scaled(self, factor);
        out
    }

    pub fn plus(mut self, other: &Linear) -> Self {
        self.add_scaled(other, 1);
        self
    }
}

/// Weight of one step in a tensor dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Pitch {
    /// A number.
    Fixed(i64),
    /// A number, where the product may pass 2³¹: it is taken in the offset type.
    Wide(i64),
    /// A variable computed from the tensor's extents, of the offset type.
    Var(Var),
}

/// Offset into a tensor: `Σ pitch · index`, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Offset {
    /// Part of weight one.
    pub unit: Linear,
    /// Parts that are weighted in the offset type, by pitch.
    pub pitched: BTreeMap<Pitch, Linear>,
}

impl Offset {
    /// Adds `pitch · index`.
    pub fn add(&mut self, pitch: Pitch, index: &Linear) {
        match pitch {
            Pitch::Fixed(c) => self.unit.add_scaled(index, c),
            Pitch::Wide(c) => {
                self.unit.constant += c * index.constant;
                let varying = Linear { constant: 0, ..index.clone() };
                self.pitched.entry(pitch).or_default().add_scaled(&varying, 1);
            }
            Pitch::Var(_) => self.pitched.entry(pitch).or_default().add_scaled(index, 1),
        }
    }
}
