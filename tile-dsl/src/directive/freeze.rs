//! `freeze`: all steps of a loop but the first leave its running maximum as it is; tiles for which that is too low are computed again.
//!
//! ```text
//! for j { top = max(m, ..s..); p = exp2(s - top); a = exp2(m - top); l = l·a + Σp; m = top }
//! →  the first step as it is; the others: p = exp2(s - m); l = l + Σp
//!    if some l is not below 2^100, behind all tiles of the CTA: the tile once more, as it is
//! ```
//! Condition: in every frame the results are the same. Each sum is one of powers of `x - m`. What is stored is a quotient of such sums,
//! `m` plus the logarithm of one, as in `m + log(l) * 1.442695` for powers of 2, or does not depend on `m`. A tile may be stored twice:
//! nothing that the kernel stores depends on what is there, and CTAs bring no parts together.
//! Cost: the tile has two texts; one that is computed again takes twice the time, and so does each whose first step has no points.
//! Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).

use super::prelude::*;
use crate::{engine::names, nest::Unfrozen};

directive! {
    /// `freeze(m)`: the running maximum stays as the first step leaves it; where that is too low, the tile is computed again.
    "freeze(m)" in Launch, 0:
    Freeze { value: String } => |s| s.one(value, "a value")
}

impl Definition for Freeze {
    const CHECK: Option<Check> = Some((Shows::Issue, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        let value = names::value(nest, &self.value)?;
        let mut nest = nest.clone();
        nest.frozen.insert(value);
        Ok((nest, Proof::default()))
    }
}

impl Drawn for Freeze {
    const ORDERS: bool = true;

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let Some(nest) = generator.nests.first() else { return vec![] };
        nest.running_maxima().into_iter().map(|value| Freeze { value }.into()).collect()
    }
}

/// The maxima can stay.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.plan.maxima().unfrozen.iter().map(|why| refused(context, why)).collect()
}

fn refused(context: &Context<'_>, why: &Unfrozen) -> Diagnostic {
    let nest = context.nest;
    let value = nest.value(why.value());
    let by = context
        .last(|k| matches!(k, DirectiveKind::Freeze(directive::Freeze { value: of }) if *of == value.name));
    let diagnostic = context.at(by, value.span, why.text(nest));
    let diagnostic = match why {
        Unfrozen::NotCarried(_) | Unfrozen::NoMaximum(_) => {
            diagnostic.remark("`let top = max(m, max(s, j)); ..; m = top;` in a loop over tiles carries one")
        }
        _ => diagnostic,
    };
    diagnostic.edits([Edit::remove()])
}
