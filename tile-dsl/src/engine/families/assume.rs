//! What the facts about extents share: bounds and multiples that some launch keeps to.

use super::{Failure, Proof};
use crate::{
    assume,
    diagnostic::{Diagnostic, Edit},
    directive,
    index::Extent,
    nest::Nest,
    span::SpanId,
};

/// A refusal with its reason.
pub(crate) fn refuse(message: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, message))
}

/// Points of the longest axis that a launch may have (`docs/semantics.md`, "Sizes").
pub(crate) const MOST_POINTS: i64 = assume::MOST_POINTS;

/// Some launch that is not empty keeps both the bound of a dim and what it is a multiple of.
pub(crate) fn compatible(nest: Nest, facts: Vec<String>) -> Result<(Nest, Proof), Failure> {
    let of_axes = nest.bounds.iter().map(|(axis, max)| {
        let extent = &nest.kernel.axes[usize::from(axis.0)].extent;
        (extent.clone(), *max)
    });
    let of_dims = nest.lengths.iter().map(|(dim, max)| (Extent::dim(dim), *max));
    for (extent, max) in of_axes.chain(of_dims) {
        for (dim, of) in &nest.multiples {
            let Some(c) = extent.dims.get(dim) else { continue };
            let most = (i64::from(max) - extent.constant) / c;
            if most < i64::from(*of) {
                return Err(refuse(format!(
                    "`{dim}` is at most {most} and a multiple of {of}: only an empty launch has both"
                ))
                .edit(Edit::put([directive::Fits { dim: dim.clone(), max: *of }]))
                .edit(Edit::remove()));
            }
        }
    }
    Ok((nest, Proof { facts, ..Proof::default() }))
}
