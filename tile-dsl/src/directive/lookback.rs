//! `lookback`: CTAs share out the steps of a loop that carries a state, each of which looks back at what the steps before it say.
//!
//! ```text
//! before = 0; for n { part = sum(x[n]); y[n] = f(x[n], before); before = before + part }
//! →  CTA of step n:  part = sum(x[n]); say part; before = what the steps before say; say before + part; y[n] = f(x[n], before)
//! ```
//! It moves what makes the part to where all is known that it needs, and rewrites no other statement.
//!
//! Conditions:
//! - The loop is a plain one, around all else that a CTA does.
//! - Each state is itself and a part of the step: a sum, a maximum or a minimum, of 32 bits. A CTA has one element of it.
//! - No part needs a state.
//! - A sum of `f32` is rounded by the order in which steps happen to be known: it takes `any_order`.
//!
//! Cost: a word of 64 bits for each step and state, a number drawn and an arrival for each CTA.
//! Source: Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back (NVIDIA, 2016).

use super::prelude::*;
use crate::{
    engine::names,
    nest::{Digit, LoopKind, State, Unhanded, WARP, loops, parts_first},
};

directive! {
    /// `lookback(n)`: CTAs share out the steps of a loop, and hand on what it carries.
    "lookback(n, any_order)" in Launch, 0:
    Lookback { digit: DigitName, any_order: bool } => |s| {
        s.tiles(digit).options(&mut [Extra::flag("any_order", any_order)])
    }
}

impl Definition for Lookback {
    const CHECK: Option<Check> = Some((Shows::Parts, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        let digit = names::existing(nest, &self.digit, names::Bare::Tile)?;
        if let Some(other) = nest.lookback {
            let text =
                format!("CTAs share out the steps of `{}`, and of one loop alone", nest.digit_name(other));
            return Err(crate::engine::families::assume::refuse(text).edit(Edit::remove()));
        }
        let body = parts_first(nest, digit);
        Ok((Nest { body, lookback: Some(digit), ..nest.clone() }, Proof::default()))
    }
}

impl Drawn for Lookback {
    const ORDERS: bool = true;
}

/// Loops of a nest whose steps CTAs could share out.
pub(crate) fn candidates(nest: &Nest) -> Vec<Lookback> {
    let carried = |digit: &Digit| {
        let handed = Nest { lookback: Some(*digit), body: parts_first(nest, *digit), ..nest.clone() };
        handed.handed_on().is_some_and(|handed| handed.is_ok())
    };
    let plain = loops(&nest.body).into_iter().filter(|(_, at)| *at == LoopKind::Seq).map(|(digit, _)| digit);
    plain.filter(carried).map(|digit| Lookback { digit: nest.digit_name(digit), any_order: true }).collect()
}

/// The steps of the loop can be shared out.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let nest = context.nest;
    let by = context.last(|k| matches!(k, DirectiveKind::Lookback(_)));
    let remove = [Edit::remove()];
    match context.plan.handed_on() {
        None => vec![],
        Some(Err(why)) => vec![refused(context, why)],
        Some(Ok(handed)) => {
            let ordered = by.is_some_and(|d| {
                matches!(&d.kind, DirectiveKind::Lookback(directive::Lookback { any_order: false, .. }))
            });
            let rounds = |s: &&State| s.op.rounds() && nest.value(s.value).dtype.is_float();
            let Some(state) = handed.states.iter().find(rounds).filter(|_| ordered) else { return vec![] };
            let value = nest.value(state.value);
            let text = format!(
                "`{}` is a sum of {}: which steps are added up first depends on which are known first, and so does the last bit",
                value.name, value.dtype
            );
            let written = by.and_then(|d| match &d.kind {
                DirectiveKind::Lookback(directive::Lookback { digit, .. }) => Some(digit.clone()),
                _ => None,
            });
            let digit = written.unwrap_or_else(|| nest.digit_name(handed.digit));
            let any = directive::Lookback { digit, any_order: true };
            vec![
                context
                    .at(by, value.span, text)
                    .note(value.span, format!("`{}` is carried here", value.name))
                    .edits([Edit::instead([any])])
                    .edits(remove),
            ]
        }
    }
}

fn refused(context: &Context<'_>, why: &Unhanded) -> Diagnostic {
    let nest = context.nest;
    let by = context.last(|k| matches!(k, DirectiveKind::Lookback(_)));
    let value = match why {
        Unhanded::Summed(v, _)
        | Unhanded::Form(v)
        | Unhanded::Bits(v)
        | Unhanded::Several(v, _)
        | Unhanded::Shared(v) => Some(*v),
        Unhanded::Needs(part, _) => Some(*part),
        Unhanded::Early(state, _) => Some(state.value),
        _ => None,
    };
    let diagnostic = context.at(by, SpanId::NONE, format!("CTAs cannot look back: {}", why.text(nest)));
    let diagnostic = match value.map(|v| nest.value(v)) {
        Some(value) => diagnostic.note(value.span, format!("`{}` is computed here", value.name)),
        None => diagnostic,
    };
    let first = match why {
        Unhanded::Several(_, digit) => {
            let axis = nest.axis(digit.axis).to_string();
            let tile = context.last(|k| matches!(k, DirectiveKind::Tile(_)));
            tile.map(|_| format!("a tile of one point along `{axis}` has one element"))
        }
        Unhanded::Threads(_) => Some(format!("bind what a step computes to {} or more threads", WARP)),
        Unhanded::Form(_) => {
            Some("add a value that the step computes: `let part = sum(v, n); before += part;`".into())
        }
        _ => None,
    };
    let diagnostic = match first {
        Some(text) => diagnostic.remark(text),
        None => diagnostic,
    };
    diagnostic.edits([Edit::remove()])
}
