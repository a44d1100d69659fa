//! Private tiles: the part of a tensor with which one CTA combines values, kept in shared memory until the CTA is done with them.
//!
//! ```text
//! h[*b]         all of the dimension, 0 to B: values say where
//! h[c, *b]      what the loops of a tile reach along c, times all of b
//! ```
//! Source: privatisation of histograms (Podlozhnyuk, "Histogram calculation in CUDA", 2007; Gómez-Luna et al., "An optimized
//! approach to histogram computation on GPU", Machine Vision and Applications 24, 2013).

use super::{Access, Digit, Nest, footprint::span, of_a_tile, walk::Step};
use crate::index::{Affine, AxisId, Extent};

/// The part of a tensor that a CTA has to itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateTile {
    /// What it has of each dimension of the tensor.
    pub dims: Vec<PrivateDim>,
    /// Elements.
    pub elems: u64,
}

/// What a private tile has of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateDim {
    /// Elements.
    pub extent: u64,
    /// Elements between neighbours.
    pub pitch: u64,
    /// How far before the place that the loops outside of the tile give it begins; absent where it is all of the dimension, because
    /// values say where.
    pub before: Option<i64>,
}

impl Nest {
    /// The private tile of what an access combines with, inside of some loops.
    ///
    /// # Errors
    /// The first dimension of which a tile would have no bound.
    pub fn private_tile(&self, access: &Access, loops: &[Step]) -> Result<PrivateTile, usize> {
        let own: Vec<Digit> = of_a_tile(loops.to_vec()).into_iter().map(|(d, _)| d).collect();
        let extents = &self.tensor(access.tensor).dims;
        let of = |(dim, index): (usize, &Affine)| -> Result<(u64, Option<i64>), usize> {
            if access.by.contains_key(&dim) {
                return Ok((self.most_points(&extents[dim]).ok_or(dim)?, None));
            }
            let (low, high) = span(index, &own);
            let points = u64::try_from(high.ok_or(dim)? - low + 1).map_err(|_| dim)?;
            Ok((points, Some(index.constant - low)))
        };
        let taken: Vec<(u64, Option<i64>)> =
            access.index.iter().enumerate().map(of).collect::<Result<_, _>>()?;
        let mut dims: Vec<PrivateDim> = taken
            .iter()
            .map(|(extent, before)| PrivateDim { extent: *extent, pitch: 0, before: *before })
            .collect();
        let mut elems = 1u64;
        for dim in self.fastest_first(access.tensor) {
            dims[dim].pitch = elems;
            elems = elems.saturating_mul(dims[dim].extent);
        }
        Ok(PrivateTile { dims, elems })
    }

    /// The most points that an extent has in any launch, where that is known.
    fn most_points(&self, extent: &Extent) -> Option<u64> {
        let axis = |(axis, _): &(&AxisId, &u32)| self.kernel.axes[usize::from(axis.0)].extent == *extent;
        let of_axis = || self.bounds.iter().find(axis).map(|(_, most)| i64::from(*most));
        let of_dims = || {
            let most = |(dim, c): (&String, &i64)| {
                let most = i64::from(*self.lengths.get(dim)?);
                if *c >= 0 { c.checked_mul(most) } else { None }
            };
            extent.dims.iter().map(most).try_fold(extent.constant, |sum, most| sum.checked_add(most?))
        };
        let most = extent.as_constant().or_else(of_axis).or_else(of_dims)?;
        u64::try_from(most).ok()
    }
}
