//! Assumptions with their dims by position, for a launch that looks nothing up by name.

use super::{Assumption, Kind, Pitches, Reach};
use crate::index::Extent;
use std::collections::BTreeMap;

/// An affine form over dims by position: `constant + Σ coefficient · dims[position]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form {
    terms: Box<[(usize, i64)]>,
    constant: i64,
}

impl Form {
    /// An extent whose dims have these positions.
    pub fn new(extent: &Extent, position: impl Fn(&str) -> usize) -> Self {
        let terms = extent.dims.iter().map(|(name, c)| (position(name), *c)).collect();
        Form { terms, constant: extent.constant }
    }

    /// Value for these dims; `None` if one is missing or the sum overflows.
    pub fn eval(&self, dims: &[i64]) -> Option<i64> {
        let term = |sum: i64, (at, c): &(usize, i64)| sum.checked_add(c.checked_mul(*dims.get(*at)?)?);
        self.terms.iter().try_fold(self.constant, term)
    }
}

/// An [`Assumption`] with its dims by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(Kind<Form>);

impl Condition {
    /// Whether the condition holds. `dims` are in the order of the positions, `bases` the addresses of the tensors in
    /// the order of the kernel's parameters. A missing dim or base fails.
    pub fn holds(&self, dims: &[i64], bases: &[u64]) -> bool {
        self.0.holds(dims, bases)
    }
}

impl Assumption {
    /// The same condition on dims that have these positions.
    pub fn at(&self, position: impl Fn(&str) -> usize + Copy) -> Condition {
        Condition(self.0.map(&|extent| Form::new(extent, position)))
    }
}

/// What an extent is worth for an assignment `D` of the dims.
pub(super) trait Evaluate<D: ?Sized> {
    /// `None` if a dim is missing or the sum overflows.
    fn value(&self, dims: &D) -> Option<i64>;
    /// With the magnitudes of coefficients and constant: no partial sum is larger.
    fn magnitude(&self, dims: &D) -> Option<i64>;
}

impl Evaluate<BTreeMap<String, i64>> for Extent {
    fn value(&self, dims: &BTreeMap<String, i64>) -> Option<i64> {
        self.eval(dims)
    }
    fn magnitude(&self, dims: &BTreeMap<String, i64>) -> Option<i64> {
        let terms = self.dims.iter().map(|(name, c)| (name.clone(), c.saturating_abs()));
        Extent { dims: terms.collect(), constant: self.constant.saturating_abs() }.eval(dims)
    }
}

impl Evaluate<[i64]> for Form {
    fn value(&self, dims: &[i64]) -> Option<i64> {
        self.eval(dims)
    }
    fn magnitude(&self, dims: &[i64]) -> Option<i64> {
        self.terms.iter().try_fold(self.constant.saturating_abs(), |sum, (at, c)| {
            sum.checked_add(c.saturating_abs().checked_mul(*dims.get(*at)?)?)
        })
    }
}

impl<E> Kind<E> {
    /// Whether the condition holds for these dims and base addresses.
    pub(super) fn holds<D: ?Sized>(&self, dims: &D, bases: &[u64]) -> bool
    where
        E: Evaluate<D>,
    {
        match self {
            Kind::AtMost { extent, max } => extent.value(dims).is_some_and(|n| n <= *max),
            Kind::Multiple { extent, of } => extent.value(dims).is_some_and(|n| n % of == 0),
            Kind::Equal { extent, points } => extent.value(dims) == Some(*points),
            Kind::Aligned { tensor, bytes, .. } => {
                bases.get(tensor.0 as usize).is_some_and(|base| base % u64::from(*bytes) == 0)
            }
            Kind::Offsets { reach, pitches, .. } => {
                pitches.last_offset(reach, dims).is_some_and(|last| last < 1 << 31)
            }
            Kind::Index { extent, slack } => extent.magnitude(dims).is_some_and(|n| n < (1 << 31) - slack),
            Kind::Coordinates { reach, .. } => reach.last(dims).is_some_and(|last| last < 1 << 31),
        }
    }

    fn map<F>(&self, f: &impl Fn(&E) -> F) -> Kind<F> {
        match self {
            Kind::AtMost { extent, max } => Kind::AtMost { extent: f(extent), max: *max },
            Kind::Multiple { extent, of } => Kind::Multiple { extent: f(extent), of: *of },
            Kind::Equal { extent, points } => Kind::Equal { extent: f(extent), points: *points },
            Kind::Aligned { tensor, name, bytes } => {
                Kind::Aligned { tensor: *tensor, name: name.clone(), bytes: *bytes }
            }
            Kind::Offsets { name, reach, pitches } => Kind::Offsets {
                name: name.clone(),
                reach: reach.iter().map(|r| r.map(f)).collect(),
                pitches: Pitches {
                    extents: pitches.extents.iter().map(f).collect(),
                    strides: pitches.strides.as_ref().map(|s| s.iter().map(f).collect()),
                },
            },
            Kind::Index { extent, slack } => Kind::Index { extent: f(extent), slack: *slack },
            Kind::Coordinates { name, reach } => {
                Kind::Coordinates { name: name.clone(), reach: reach.map(f) }
            }
        }
    }
}

impl<E> Reach<E> {
    fn map<F>(&self, f: &impl Fn(&E) -> F) -> Reach<F> {
        let terms = self.terms.iter().map(|(c, extent, points, round)| (*c, f(extent), *points, *round));
        Reach { constant: self.constant, terms: terms.collect() }
    }

    /// The greatest index; `None` if a dim is missing or the sum overflows.
    pub(super) fn last<D: ?Sized>(&self, dims: &D) -> Option<i64>
    where
        E: Evaluate<D>,
    {
        self.terms.iter().try_fold(self.constant, |index, (c, extent, points, round)| {
            let last = if *round {
                let n = extent.value(dims)?.max(0);
                n.checked_add(points - 1)? / points * points - 1
            } else {
                points - 1
            };
            index.checked_add(c.checked_mul(last)?)
        })
    }
}

impl<E> Pitches<E> {
    /// The greatest offset of an access with these greatest indices, fastest dimension first; `None` if a dim is
    /// missing or the sum overflows.
    fn last_offset<D: ?Sized>(&self, reach: &[Reach<E>], dims: &D) -> Option<i64>
    where
        E: Evaluate<D>,
    {
        let (mut sum, mut pitch) = (0i64, 1i64);
        for (n, (reach, extent)) in reach.iter().zip(&self.extents).enumerate() {
            if let Some(strides) = &self.strides {
                pitch = strides.get(n)?.value(dims)?;
            }
            let index = reach.last(dims)?;
            let extent = extent.value(dims)?.max(1);
            sum = sum.checked_add(index.max(extent).checked_mul(pitch)?)?;
            pitch = pitch.checked_mul(extent)?;
        }
        Some(sum)
    }
}
