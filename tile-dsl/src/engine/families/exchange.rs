//! `exchange` of a tensor that the kernel stores to: four lanes with pairs of the elements of a row exchange them, so that
//! each stores eight elements side by side.
//!
//! No statement is rewritten: each element is stored by the statement that stored it before, by another lane.
//!
//! Side conditions: one statement stores to the tensor, and nothing reads it, so that no lane stores what another has yet to
//! read; it is not collected in shared memory. How lanes hold its elements, the complete schedule shows.
//! Source: transposition of a register tile by shuffles (Catanzaro, Keller, Garland, PPoPP 2014, section 6.2).

use super::{Failure, Proof, output};
use crate::{
    diagnostic::{Diagnostic, Edit},
    engine::names,
    nest::Nest,
    span::SpanId,
};

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text)).edit(Edit::instead([]))
}

/// `exchange(tensor)`.
pub(in crate::engine) fn apply(nest: &Nest, name: &str, span: SpanId) -> Result<(Nest, Proof), Failure> {
    let Some(tensor) = names::tensor(nest, name) else {
        let known = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        return Err(names::unknown("tensor", name, known));
    };
    let (stores, read) = output::accesses(nest, tensor);
    if let Some(read) = read {
        let text = match stores.is_empty() {
            true => format!("`{name}` is read, not stored: there is nothing to exchange"),
            false => format!("`{name}` is read, too: one lane would store what another has yet to read"),
        };
        return Err(refuse(text).note(nest.access(read).span, format!("`{name}` is read here")));
    }
    if stores.len() != 1 {
        let failure =
            refuse(format!("{} statements store to `{name}`: lanes exchange for one", stores.len()));
        return Err(stores.iter().fold(failure, |f, a| f.note(nest.access(*a).span, "one stores here")));
    }
    if let Some(output) = nest.outputs.get(&tensor) {
        let text = format!("what a CTA stores of `{name}` is collected in shared memory: no lane stores it");
        return Err(refuse(text).note(output.span, "collected here"));
    }
    let mut nest = nest.clone();
    nest.exchanged.insert(tensor, span);
    let fact = format!("four lanes exchange what they store of `{name}`");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}
