//! `cache` of a tensor: the eviction priority in L2 of what the kernel accesses of it.
//!
//! No statement is rewritten: the same elements are loaded and stored, with a hint (PTX ISA, "createpolicy").
//!
//! Side conditions: the kernel accesses the tensor, by loads, stores and copies, which take the hint. What CTAs add to it
//! atomically (`split_k(k, n; atomic)`) goes without one.

use super::{Failure, Proof, output};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::{AccessId, Across, Frame, Nest, Target, ValueId, leaves},
    schedule::Evict,
    span::SpanId,
    tile::TensorId,
};

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text)).edit(Edit::instead([]))
}

/// `cache(tensor: policy)`.
pub(in crate::engine) fn apply(nest: &Nest, name: &str, evict: Evict) -> Result<(Nest, Proof), Failure> {
    let Some(tensor) = names::tensor(nest, name) else {
        let known: Vec<String> = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        let Some(value) = nest.values.iter().find(|v| v.name == name) else {
            return Err(names::unknown("tensor", name, known));
        };
        let text =
            format!("`{name}` is a value of the kernel, in registers or shared memory: L2 holds tensors");
        let remark = format!("the tensors are {}", names::list(&known));
        return Err(refuse(text).remark(remark).note(value.span, format!("`{name}` is computed here")));
    };
    if let Some(access) = added(nest, tensor) {
        let text = format!("CTAs add their parts to `{name}` atomically: additions take no cache policy");
        return Err(refuse(text).note(nest.access(access).span, "added here"));
    }
    let (stores, read) = output::accesses(nest, tensor);
    if stores.is_empty() && read.is_none() {
        let text = format!("the kernel does not access `{name}`: there is nothing to keep in L2");
        return Err(refuse(text).note(nest.tensor(tensor).span, "declared here"));
    }
    let mut nest = nest.clone();
    nest.cache.insert(tensor, evict);
    let fact = format!(
        "L2 evicts what is accessed of `{name}` {}",
        match evict {
            Evict::First => "before other lines",
            Evict::Last => "after other lines",
        }
    );
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}

/// Where CTAs add to a tensor instead of storing to it: behind a reduction whose parts meet that way.
fn added(nest: &Nest, tensor: TensorId) -> Option<AccessId> {
    let mut found = None;
    leaves(&nest.body, &mut |path, leaf| {
        let Some((Target::Access(access), _)) = leaf.leaf() else { return };
        let adds = |v: &ValueId| nest.across.get(v) == Some(&Across::Atomic);
        let meets = |f: &Frame| matches!(f, Frame::Rest(values) if values.iter().any(adds));
        if nest.access(access).tensor == tensor && path.iter().any(meets) {
            found = found.or(Some(access));
        }
    });
    found
}
