//! Symbolic extents and affine indices.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Extent of a tensor dimension or of an axis: `constant + Σ coefficient · dim`, over named dims.
///
/// `M`, `3` and `{N + 2}` are extents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Extent {
    /// Named dims with their coefficients, no zero coefficient.
    pub dims: BTreeMap<String, i64>,
    /// Constant part.
    pub constant: i64,
}

impl Extent {
    /// A fixed number.
    pub fn constant(n: i64) -> Self {
        Extent { dims: BTreeMap::new(), constant: n }
    }

    /// A named dim.
    pub fn dim(name: &str) -> Self {
        Extent { dims: [(name.to_string(), 1)].into(), constant: 0 }
    }

    /// The number, if no named dim occurs.
    pub fn as_constant(&self) -> Option<i64> {
        self.dims.is_empty().then_some(self.constant)
    }

    /// The name, if this is exactly one named dim.
    pub fn as_dim(&self) -> Option<&str> {
        match self.dims.iter().next() {
            Some((name, 1)) if self.dims.len() == 1 && self.constant == 0 => Some(name),
            _ => None,
        }
    }

    /// Value under an assignment of the named dims; `None` if one is missing or the sum overflows.
    pub fn eval(&self, dims: &BTreeMap<String, i64>) -> Option<i64> {
        self.dims
            .iter()
            .try_fold(self.constant, |sum, (name, c)| sum.checked_add(c.checked_mul(*dims.get(name)?)?))
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_affine(f, self.dims.iter().map(|(n, c)| (n.as_str(), *c)), self.constant)
    }
}

/// Identifies an axis of a kernel: an index into its table of axes (roots).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AxisId(pub u16);

/// Index of one tensor dimension: `constant + Σ coefficient · axis`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct Affine {
    /// Axes with their coefficients, no zero coefficient.
    pub terms: BTreeMap<AxisId, i64>,
    /// Constant part.
    pub constant: i64,
}

impl Affine {
    /// The axis itself.
    pub fn axis(axis: AxisId) -> Self {
        Affine { terms: [(axis, 1)].into(), constant: 0 }
    }

    /// Coefficient of an axis, 0 if it does not occur.
    pub fn coefficient(&self, axis: AxisId) -> i64 {
        self.terms.get(&axis).copied().unwrap_or(0)
    }

    /// The axis, if the index is exactly one axis.
    pub fn as_axis(&self) -> Option<AxisId> {
        match self.terms.iter().next() {
            Some((axis, 1)) if self.terms.len() == 1 && self.constant == 0 => Some(*axis),
            _ => None,
        }
    }
}

/// Writes `2*a + b - 1`, `0` for the empty sum.
pub(crate) fn write_affine<'a>(
    f: &mut fmt::Formatter<'_>,
    terms: impl Iterator<Item = (&'a str, i64)>,
    constant: i64,
) -> fmt::Result {
    let mut first = true;
    for (name, c) in terms {
        match (first, c < 0) {
            (true, true) => f.write_str("-")?,
            (true, false) => {}
            (false, true) => f.write_str(" - ")?,
            (false, false) => f.write_str(" + ")?,
        }
        if c.abs() != 1 {
            write!(f, "{}*", c.abs())?;
        }
        f.write_str(name)?;
        first = false;
    }
    match (first, constant) {
        (true, c) => write!(f, "{c}"),
        (false, 0) => Ok(()),
        (false, c) => write!(f, " {} {}", if c < 0 { '-' } else { '+' }, c.abs()),
    }
}
