//! `exchange` of a tensor that the kernel stores to: four lanes with pairs of the elements of a row exchange them, so that
//! each stores eight elements side by side.
//!
//! No statement is rewritten: each element is stored by the statement that stored it before, by another lane. Where several
//! statements store to the tensor, lanes exchange for each of them. Their elements never meet, so their order is free.
//!
//! Conditions: the kernel stores to the tensor and does not read it, so that no lane stores what another has yet to
//! read; it is not collected in shared memory. How lanes hold its elements, the complete schedule shows.
//! Cost: shuffles; wider stores.
//! Source: transposition of a register tile by shuffles (Catanzaro, Keller, Garland, PPoPP 2014, section 6.2).

use super::prelude::*;
use crate::{
    engine::{families::output, names},
    nest::{NoExchange, NoStoredMatrices, Steps},
    plan::{Store, Unstored},
    tile::TensorId,
};

directive! {
    /// `exchange(c)`: lanes that hold pairs of a stored row exchange them, and each stores eight elements.
    "exchange(c)" in Expand, 0:
    Exchange { tensor: String } => |s| s.each(tensor, "a tensor")
}

impl Definition for Exchange {
    const CHECK: Option<Check> = Some((Shows::Stores, check));

    fn apply(&self, nest: &Nest, span: SpanId) -> Applied {
        apply(nest, &self.tensor, span)
    }
}

impl Drawn for Exchange {
    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[ATOMS, &[Kind::Unroll]]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        generator.pairs_of_stored(&generator.pairs());
        // What four lanes exchange is a straight line.
        for digit in generator.short(16) {
            if [".half", ".group", ".row", ".atom"].iter().any(|part| digit.ends_with(part)) {
                generator.propose(directive::Unroll { digit, within: None });
            }
        }
        generator.stored().into_iter().map(|tensor| Exchange { tensor }.into()).collect()
    }
}

fn refuse(text: String) -> Failure {
    Failure::refused(Diagnostic::new(SpanId::NONE, text)).edit(Edit::remove())
}

/// `exchange(tensor)`.
fn apply(nest: &Nest, name: &str, span: SpanId) -> Result<(Nest, Proof), Failure> {
    let Some(tensor) = names::tensor(nest, name) else {
        let known = nest.kernel.tensors.iter().map(|t| t.name.clone()).collect();
        return Err(names::unknown("tensor", name, known));
    };
    let (stores, read) = output::accesses(nest, tensor);
    if let Some(read) = read {
        let text = match stores.is_empty() {
            true => format!("`{name}` is read, not stored: there is nothing to exchange"),
            false => {
                format!("`{name}` is read, too: one lane could overwrite an element before another reads it")
            }
        };
        return Err(refuse(text).note(nest.access(read).span, format!("`{name}` is read here")));
    }
    if stores.is_empty() {
        return Err(refuse(format!("no statement stores to `{name}`: there is nothing to exchange")));
    }
    if let Some(output) = nest.outputs.get(&tensor) {
        let text = format!(
            "stores to `{name}` are collected in shared memory: lanes have nothing to exchange for global memory"
        );
        return Err(refuse(text).note(output.span, "collected here"));
    }
    stores.iter().try_for_each(|access| output::by_forms(nest, *access))?;
    let mut nest = nest.clone();
    nest.exchanged.insert(tensor, span);
    let fact = format!("four lanes exchange what they store of `{name}`");
    Ok((nest, Proof { facts: vec![fact], ..Proof::default() }))
}

/// How lanes hold the rows, and that each stores its own.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.exchanged.keys().filter_map(|tensor| of(context, *tensor)).collect()
}

/// The first store of a tensor for which lanes cannot exchange.
fn of(context: &Context<'_>, tensor: TensorId) -> Option<Diagnostic> {
    let stores = context.plan.stores();
    let several = stores.of_tensor(context.nest, tensor).count() > 1;
    stores.of_tensor(context.nest, tensor).find_map(|store| {
        let wrong = of_store(context, tensor, store)?;
        let span = context.nest.access(store.access).span;
        Some(if several { wrong.note(span, "stored here") } else { wrong })
    })
}

fn of_store(context: &Context<'_>, tensor: TensorId, store: &Store) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = &nest.tensor(tensor).name;
    let by = context
        .last(|k| matches!(k, DirectiveKind::Exchange(directive::Exchange { tensor }) if tensor == name));
    let wrong = |text: String| context.at(by, nest.exchanged[&tensor], text).edits([Edit::remove()]);
    let why = match &store.how {
        Err(Unstored::Exchange(_, why)) => *why,
        _ if nest.across.is_empty() => return None,
        _ => {
            let text = format!(
                "CTAs share the sums that `{name}` holds: each has parts of rows, which lanes do not exchange"
            );
            return Some(wrong(text));
        }
    };
    let within = || Some(name.clone());
    let pairs = store.loops.iter().filter(|(d, kind)| kind.is_expanded() && d.steps == Steps::Fixed(2));
    let vectors = pairs
        .map(|(d, _)| Edit::put([directive::Vectorize { digit: nest.digit_name(*d), within: within() }]));
    let unroll = match why {
        NoExchange::Between(d) if d.steps != Steps::Rest => {
            Some(Edit::put([directive::Unroll { digit: nest.digit_name(d), within: within() }]))
        }
        _ => None,
    };
    let vectors: Vec<Edit> = match why {
        NoExchange::Matrices(NoStoredMatrices::Lanes) => vectors.collect(),
        _ => Vec::new(),
    };
    let edits = vectors.into_iter().chain(unroll).chain([Edit::remove()]);
    Some(context.at(by, nest.exchanged[&tensor], Unstored::Exchange(tensor, why).text(nest)).edits(edits))
}
