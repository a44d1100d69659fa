//! `multiple`: what an extent is a multiple of, checked at launch.
//!
//! ```text
//! multiple(N: n)   N is 0, n, 2·n ..: guards and conditions of variants that follow from it go
//! ```
//! Conditions: the dim is one of an axis or of a tensor; the number is more than 1, and within what the dim is bounded by.
//! Cost: launches with another extent are refused.

use super::prelude::*;
use crate::{
    engine::{
        families::assume::{MOST_POINTS, compatible, refuse},
        names,
    },
    tile::Axis,
};

directive! {
    /// `multiple(N: 128)`: an extent is a multiple of a number, checked at launch.
    "multiple(N: 128)" in Assume, 0:
    Multiple { dim: String, of: u32 } => |s| s.each(dim, "a dim").mark(":").number(of)
}

impl Definition for Multiple {
    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        multiple(nest, &self.dim, self.of)
    }
}

impl Drawn for Multiple {
    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let of = *generator.random.pick(&[2, 3, 4, 8, 16]);
        generator.dims().into_iter().map(|dim| Multiple { dim, of }.into()).collect()
    }
}

/// `multiple(dim: of)`.
fn multiple(nest: &Nest, dim: &str, of: u32) -> Result<(Nest, Proof), Failure> {
    let kernel = &nest.kernel;
    let extents = kernel.axes.iter().map(|a| &a.extent).chain(kernel.tensors.iter().flat_map(|t| &t.dims));
    let mut dims: Vec<String> = Vec::new();
    for name in extents.flat_map(|extent| extent.dims.keys()) {
        if !dims.contains(name) {
            dims.push(name.clone());
        }
    }
    if !dims.iter().any(|known| known == dim) {
        return Err(match kernel.axes.iter().find(|axis| axis.name == dim) {
            Some(axis) => multiple_of_axis(axis, of),
            None => names::unknown("dim", dim, dims),
        });
    }
    if of == 1 {
        return Err(refuse(format!("multiple({dim}: 1) says nothing: every extent is a multiple of 1"))
            .edit(Edit::remove()));
    }
    if i64::from(of) > MOST_POINTS {
        let text = format!(
            "multiple({dim}: {of}): launches have at most {MOST_POINTS} points along an axis, as indices have 32 bits: only an empty launch keeps to it"
        );
        return Err(refuse(text).edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.multiples.insert(dim.to_string(), of);
    compatible(nest, vec![format!("`{dim}` is a multiple of {of}, checked at launch")])
}

/// An axis is no dim: it has the extent of one, or a constant one.
fn multiple_of_axis(axis: &Axis, of: u32) -> Failure {
    let name = &axis.name;
    if let Some(points) = axis.extent.as_constant() {
        let whether = if points % i64::from(of) == 0 { "a" } else { "no" };
        return refuse(format!("`{name}` has {points} points in every launch, {whether} multiple of {of}"))
            .note(axis.span, "its extent is a constant")
            .edit(Edit::remove());
    }
    let dims = axis
        .extent
        .dims
        .keys()
        .map(|dim| DirectiveKind::Multiple(directive::Multiple { dim: dim.clone(), of }));
    refuse(format!("`{name}` is an axis, and its extent {}: name a dim", axis.extent))
        .edit(Edit::instead(dims.collect::<Vec<_>>()))
}
