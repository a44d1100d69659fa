//! Copies of elements where values say: what a copy has is a box whose coordinates are looked up.
//!
//! ```text
//! x[row i of *z.i, k]   the copy has a row for each point of `i`; the value there says which row of `x` it is
//! w[at *z, k, j]        one value moves all of the copy
//! ```
//! Where several dimensions are looked up for a row, the first of them counts the rows, and the copy has one element along the others.
//! A read of such a copy is like any other: its index is the place in the copy. The values belong to the copy, so whoever fills it
//! works them out, whenever that is.

use super::{Access, Expr, Nest};
use crate::{
    index::{Affine, AxisId},
    tile::TensorId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where a copy takes its elements from along a dimension in which values say so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// What is added to the value.
    pub form: Affine,
    /// The value: made of numbers, axes, and loads of what nothing in the kernel changes.
    pub value: Expr,
    /// Its axes.
    pub axes: BTreeSet<AxisId>,
    /// The axis for whose points it is looked up, of which the copy has a row each; absent where one value moves all of it.
    pub row: Option<AxisId>,
}

impl Access {
    /// The dimension that counts the rows which values along this one are looked up for; `None` where one value moves all of a copy.
    pub fn row_of(&self, dim: usize) -> Option<usize> {
        let row = self.gathered.get(&dim)?.row?;
        let counts = |n: &usize| self.index[*n].as_axis() == Some(row);
        self.gathered.iter().filter(|(_, of)| of.row == Some(row)).map(|(n, _)| *n).find(counts)
    }
}

impl Nest {
    /// Whether what is in a tensor says where a copy of another one takes its elements.
    pub(crate) fn places_copies(&self, tensor: TensorId) -> bool {
        let gathered = self.accesses.iter().flat_map(|access| access.gathered.values());
        let mut reads = gathered.flat_map(|g| g.value.accesses());
        reads.any(|access| self.access(access).tensor == tensor)
    }
}
