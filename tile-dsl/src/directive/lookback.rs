//! `lookback`: CTAs share out the steps of a loop that carries a state, each of which looks back at what the steps before it have published.
//!
//! ```text
//! before = 0; for n { part = sum(x[n]); y[n] = f(x[n], before); before = before + part }
//! →  CTA of step n:  part = sum(x[n]); publish part; before = what the steps before have published; publish before + part; y[n] = f(x[n], before)
//! ```
//! It moves what makes the part to where all is known that it needs, and rewrites no other statement.
//!
//! Conditions:
//! - The loop is a plain one, around all else that a CTA does.
//! - Each state is itself and a part of the step: a sum, a maximum or a minimum, of 32 bits. A CTA has one element of it.
//! - No part needs a state.
//! - A sum of `f32` is rounded by the order in which steps happen to be known: it takes `any_order`.
//!
//! Cost: a word of 64 bits for each step and state, a ticket and an arrival for each CTA.
//! Source: Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back (NVIDIA, 2016).

use super::prelude::*;
use crate::{
    engine::names,
    nest::{Digit, LoopKind, NoLookback, State, WARP, loops, parts_first},
};

directive! {
    /// `lookback(n)`: CTAs share out the steps of a loop, and pass on what it carries.
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
        let looking = Nest { lookback: Some(*digit), body: parts_first(nest, *digit), ..nest.clone() };
        looking.looks_back().is_some_and(|found| found.is_ok())
    };
    let plain = loops(&nest.body).into_iter().filter(|(_, at)| *at == LoopKind::Seq).map(|(digit, _)| digit);
    plain.filter(carried).map(|digit| Lookback { digit: nest.digit_name(digit), any_order: true }).collect()
}

/// The steps of the loop can be shared out.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    match context.plan.looks_back() {
        None => vec![],
        Some(Err(why)) => vec![refused(context, why)],
        Some(Ok(lookback)) => lookback.states.iter().find_map(|s| rounded(context, s)).into_iter().collect(),
    }
}

/// A sum that is rounded, where nothing says that its order may differ.
fn rounded(context: &Context<'_>, state: &State) -> Option<Diagnostic> {
    let by = context.last(|k| matches!(k, DirectiveKind::Lookback(_)))?;
    let DirectiveKind::Lookback(Lookback { digit, any_order: false }) = &by.kind else { return None };
    let value = context.nest.value(state.value);
    if !(state.op.rounds() && value.dtype.is_float()) {
        return None;
    }
    let text = format!(
        "`{}` is a sum of {}: which steps are added up first depends on which are known first, and so does the last bit",
        value.name, value.dtype
    );
    let any = directive::Lookback { digit: digit.clone(), any_order: true };
    let diagnostic = context.at(Some(by), value.span, text);
    let diagnostic = diagnostic.note(value.span, format!("`{}` is carried here", value.name));
    Some(diagnostic.edits([Edit::instead([any]), Edit::remove()]))
}

fn refused(context: &Context<'_>, why: &NoLookback) -> Diagnostic {
    let nest = context.nest;
    let by = context.last(|k| matches!(k, DirectiveKind::Lookback(_)));
    let value = match why {
        NoLookback::Summed(v, _)
        | NoLookback::Form(v)
        | NoLookback::Bits(v)
        | NoLookback::Several(v, _)
        | NoLookback::Shared(v) => Some(*v),
        NoLookback::Needs(part, _) => Some(*part),
        NoLookback::Early(state, _) => Some(state.value),
        _ => None,
    };
    let diagnostic = context.at(by, SpanId::NONE, format!("CTAs cannot look back: {}", why.text(nest)));
    let diagnostic = match value.map(|v| nest.value(v)) {
        Some(value) => diagnostic.note(value.span, format!("`{}` is computed here", value.name)),
        None => diagnostic,
    };
    let hint = match why {
        NoLookback::Several(_, digit) => {
            Some(format!("a tile of one point along `{}` has one element", nest.axis(digit.axis)))
        }
        NoLookback::Threads(_) => Some(format!("bind what a step computes to {WARP} or more threads")),
        NoLookback::Form(_) => {
            Some("add a value that the step computes: `let part = sum(v, n); before += part;`".into())
        }
        NoLookback::Early(state, _) => {
            let name = &nest.value(state.value).name;
            Some(format!("compute the part before what reads `{name}`: `let part = sum(v, n);`"))
        }
        _ => None,
    };
    hint.into_iter().fold(diagnostic, Diagnostic::remark).edits([Edit::remove()])
}
