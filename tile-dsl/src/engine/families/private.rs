//! `stage` of a tensor that the kernel combines values with: each CTA has its part of it in shared memory, and adds that to the
//! tensor once.
//!
//! ```text
//! (put h[*b] sum E)     an atomic operation an element on global memory
//!                   →   one on shared memory; behind all of a tile, one an element of the tile on global memory
//! ```
//! No statement is rewritten: each value is combined once, by the statement that combined it before.
//!
//! Side conditions: the tensor is stored by one statement, which combines; its operation is associative and commutative, so
//! the parts of the tile may come together first. The tile has a size: the complete schedule shows.

use super::{Failure, Proof, stage::Request};
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{AccessId, Nest},
    schedule::Via,
    span::SpanId,
    tile::TensorId,
};
use std::collections::BTreeSet;

/// `stage(tensor: shared)` for a tensor that values are combined with by some statements.
pub(crate) fn apply(
    nest: &Nest,
    request: &Request<'_>,
    (tensor, stores): (TensorId, &[AccessId]),
) -> Result<(Nest, Proof), Failure> {
    let name = request.buffer;
    let refuse = |text: String| Failure::refused(Diagnostic::new(SpanId::NONE, text));
    let plain = Request { at: None, via: Via::Plain, transposed: false, vector: None, ..*request }.kind();
    if request.via != Via::Plain || request.transposed || request.vector.is_some() || request.at.is_some() {
        return Err(refuse(format!(
            "values are combined with `{name}` one by one: `stage({name}: shared)` keeps what a CTA has of it, for all of a tile"
        ))
        .edit(Edit::instead([plain]))
        .edit(Edit::remove()));
    }
    if let [_, _, ..] = stores {
        let failure = refuse(format!(
            "{} statements combine values with `{name}`: what a CTA keeps of it is the part that one of them reaches",
            stores.len()
        ));
        // Statements that combine at the same place have one access.
        let places: BTreeSet<&AccessId> = stores.iter().collect();
        let noted = places.into_iter().fold(failure, |f, a| f.note(nest.access(*a).span, "combined here"));
        return Err(noted.edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.private.insert(tensor, request.span);
    let fact = format!("each CTA combines values with a part of `{name}` of its own in shared memory first");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}
