//! `skew`: the asynchronous MMAs of a loop's first value are those of the next step, and the products behind them are waited for in
//! the next step.
//!
//! ```text
//! for j { s = q · k[j]; p = f(s); o += p · v[j] }
//! →  s = q · k[0]; for j { p = f(s); s = q · k[j + 1]; o += p · v[j] }
//! ```
//! It rewrites no statement. Condition, which the complete schedule shows: the loop has a producer; the value is what its steps
//! begin with, products of copies alone; other products follow, behind all that reads the value.
//! Cost: the registers of the value live across the end of a step, beside those of the products; the last step has a text of its own.
//! Source: software pipelining (Lam, PLDI 1988); FlashAttention-3 (Shah and others, 2024).

use super::prelude::*;
use crate::{
    engine::names,
    machine::Unit,
    nest::{LoopKind, Stmt, Unskewed, chain},
};

directive! {
    /// `skew(s.dot)`: the products of a value are issued a step ahead, beside those that follow in the step.
    "skew(s)" in Launch, 0:
    Skew { value: String } => |s| s.one(value, "a value")
}

impl Definition for Skew {
    const CHECK: Option<Check> = Some((Shows::Issue, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        let value = names::value(nest, &self.value)?;
        let mut nest = nest.clone();
        nest.ahead.insert(value);
        Ok((nest, Proof::default()))
    }
}

impl Drawn for Skew {
    const ORDERS: bool = true;

    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[&[Kind::Wgmma], PRODUCERS]
    }

    fn candidates(_: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let mut values = Vec::new();
        let Some(nest) = generator.nests.first() else { return vec![] };
        nest.body.each(&mut |stmt| {
            if let Stmt::For { at: LoopKind::Pipe(2..), body, .. } = stmt
                && let (_, Stmt::Let { values: of, .. }) = chain(body.as_ref())
            {
                values.extend(of.iter().map(|v| nest.value(*v).name.clone()));
            }
        });
        values.into_iter().map(|value| Skew { value }.into()).collect()
    }
}

/// The loops can compute their first values a step ahead.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.skews().into_iter().filter_map(|found| Some(refused(context, &found.err()?))).collect()
}

fn refused(context: &Context<'_>, why: &Unskewed) -> Diagnostic {
    let nest = context.nest;
    let value = nest.value(why.value());
    let by = context
        .last(|k| matches!(k, DirectiveKind::Skew(directive::Skew { value: of }) if *of == value.name));
    let diagnostic = context.at(by, value.span, why.text(nest));
    let first = match why {
        Unskewed::Unproduced(_, digit) => {
            let produce =
                directive::Produce { digit: nest.digit_name(*digit), unit: Unit::Warpgroup, stages: None };
            Some(Edit::put([produce]))
        }
        Unskewed::RunTime(_, digit) => {
            Some(Edit::put([directive::Unroll { digit: nest.digit_name(*digit), within: None }]))
        }
        _ => None,
    };
    let diagnostic = match why {
        Unskewed::NoProducts(_) => {
            diagnostic.remark(format!("`tensor_core({}: wgmma(64, 64))` computes it by them", value.name))
        }
        Unskewed::Read(..) => {
            diagnostic.remark("compute what needs it before the products, as a value of its own")
        }
        _ => diagnostic,
    };
    diagnostic.edits(first).edits([Edit::remove()])
}
