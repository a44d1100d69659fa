//! `produce`: the copies of a pipelined loop are made by a warp or a warpgroup of its own.
//!
//! It rewrites no statement. Condition: one kind of producer makes all, as one thread makes the copies of all loops. That the copies come by tensor maps and the threads that
//! compute are whole warps, the complete schedule shows.
//! Cost: a warp or a warpgroup that computes nothing.
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::prelude::*;
use crate::{
    diagnostic::list,
    engine::{families::assume::refuse, names},
    machine::Unit,
    nest::Digit,
    plan::Unproduced,
};
use std::collections::BTreeSet;

directive! {
    /// `produce(k: warp)`: the copies of a pipelined loop are made by a warp or a warpgroup of its own.
    "produce(k: warpgroup)" in Launch, 0:
    Produce { digit: DigitName, unit: Unit = Unit::Warp } => |s| {
        s.tiles(digit).mark(":").one_of(unit, "producer", &[Unit::Warp, Unit::Warpgroup])
    }
}

impl Definition for Produce {
    const CHECK: Option<Check> = Some((Shows::Producers, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        produce(nest, &self.digit, self.unit)
    }
}

impl Drawn for Produce {
    fn kinds(&self, _: &Schedule) -> Vec<Kind> {
        vec![if self.unit == Unit::Warpgroup { Kind::ProduceWarpgroup } else { Kind::ProduceWarp }]
    }

    fn beside(kind: Kind) -> &'static [&'static [Kind]] {
        match kind {
            Kind::ProduceWarp => &[&[Kind::StageTma], &[Kind::Pipeline], COMPUTING],
            _ => &[
                &[Kind::StageTma],
                &[Kind::Pipeline],
                COMPUTING,
                &[Kind::Wgmma, Kind::BindThread, Kind::BindWarp],
            ],
        }
    }

    fn candidates(kind: Kind, generator: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        let unit = if kind == Kind::ProduceWarp { Unit::Warp } else { Unit::Warpgroup };
        let mut at: BTreeSet<String> = generator.copies(false).into_iter().map(|(_, at)| at).collect();
        if !generator.produced().is_empty() {
            at = generator.digits(false).into_iter().map(|d| d.0).collect();
        }
        at.into_iter().map(|digit| Produce { digit, unit }.into()).collect()
    }
}

/// `produce(digit: unit)`; whether its copies suit a producer, the complete schedule shows.
fn produce(nest: &Nest, name: &str, unit: Unit) -> Result<(Nest, Proof), Failure> {
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if let Some(other) = nest.producer.filter(|other| *other != unit) {
        let loops: Vec<String> = nest.produced.iter().map(|digit| nest.digit_name(*digit)).collect();
        let alike = directive::Produce { digit: name.to_string(), unit: other };
        return Err(refuse(format!(
            "the copies of {} are made by a {other}: one thread makes the copies of all loops of a CTA, in their order",
            list(&loops)
        ))
        .edit(Edit::instead([alike]))
        .edit(Edit::remove()));
    }
    let mut nest = nest.clone();
    nest.produced.insert(digit);
    nest.producer = Some(unit);
    Ok((nest, Proof::default()))
}

/// What a producer copies comes by tensor maps, in a pipelined loop, and goes to whole warps.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    context.plan.roles().unproduced.iter().filter_map(|why| unproduced(context, *why)).collect()
}

fn unproduced(context: &Context<'_>, why: Unproduced) -> Option<Diagnostic> {
    let nest = context.nest;
    let by = |of: Option<Digit>| {
        context.last(|k| match k {
            DirectiveKind::Produce(directive::Produce { digit, .. }) => {
                of.is_none_or(|of| context.is(digit, of))
            }
            _ => false,
        })
    };
    let at = |of: Option<Digit>| context.at(by(of), SpanId::NONE, why.text(nest));
    Some(match why {
        Unproduced::NoPipeline { digit, copies } => {
            let digit_name = nest.digit_name(digit);
            let pipeline = Edit::put([directive::Pipeline { digit: digit_name, stages: 2 }]);
            at(Some(digit)).edits(copies.then_some(pipeline))
        }
        // No tensor map copies rows anywhere.
        Unproduced::NoMap(digit, copy) if !nest.copied_access(copy).gathered.is_empty() => at(Some(digit))
            .note(nest.copy(copy).span, "values say where this takes its rows")
            .edits([Edit::remove().remark("the threads that compute copy such rows")]),
        Unproduced::NoMap(digit, copy) => {
            let (buffer, name) = (nest.copy_name(copy), nest.digit_name(digit));
            at(Some(digit))
                .note(nest.copy(copy).span, format!("`{buffer}` is staged here"))
                .remark(format!("`stage({buffer} at {name}: shared, tma)`"))
        }
        Unproduced::Behind(digit, value) => {
            let value = nest.value(value);
            at(Some(digit))
                .note(value.span, format!("`{}` is computed here", value.name))
                .edits([Edit::remove().remark("the threads that compute copy themselves")])
        }
        Unproduced::NoWarps(_) | Unproduced::NoWarpgroups(_) | Unproduced::Crowded { .. } => {
            at(None).edits([Edit::remove()])
        }
        // Its copies have no boxes, which is the mistake.
        Unproduced::Spread(_) => return None,
    })
}
