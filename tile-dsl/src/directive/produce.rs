//! `produce`: the copies of a pipelined loop, or of a tile, are made by a warp or a warpgroup of its own.
//!
//! ```text
//! produce(k: warp)                  those of each step of `k`
//! produce(i: warp)                  those that are made once a tile of `i`: where a CTA takes tile after tile, those of the next tile
//!                                   are on their way while this one ends
//! produce(i: warp, stages(2))       there is room for two tiles, so that they need not wait for the end of this one
//! ```
//! It rewrites no statement. Condition: one kind of producer makes all, as one thread makes the copies of all loops. That the copies come by tensor maps and the threads that
//! compute are whole warps, the complete schedule shows.
//! Cost: a warp or a warpgroup that computes nothing.
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::{pipeline::MOST_STAGES, prelude::*};
use crate::{
    diagnostic::list,
    engine::{families::assume::refuse, names},
    machine::Unit,
    nest::{Digit, loops},
    plan::Unproduced,
};
use std::collections::BTreeSet;

directive! {
    /// `produce(k: warp)`: the copies of a pipelined loop are made by a warp or a warpgroup of its own.
    "produce(k: warpgroup)" in Launch, 0:
    Produce { digit: DigitName, unit: Unit = Unit::Warp, stages: Option<u32> } => |s| {
        s.tiles(digit)
            .mark(":")
            .one_of(unit, "producer", &[Unit::Warp, Unit::Warpgroup])
            .options(&mut [Extra::number("stages(2)", stages)])
    }
}

impl Definition for Produce {
    const CHECK: Option<Check> = Some((Shows::Producers, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        produce(nest, self)
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
        at.into_iter().map(|digit| Produce { digit, unit, stages: None }.into()).collect()
    }
}

/// `produce(digit: unit)`; whether its copies suit a producer, the complete schedule shows.
fn produce(nest: &Nest, produce: &directive::Produce) -> Result<(Nest, Proof), Failure> {
    let (name, unit) = (produce.digit.as_str(), produce.unit);
    let digit = names::existing(nest, name, names::Bare::Tile)?;
    if let Some(stages) = produce.stages.filter(|stages| !(2..=MOST_STAGES).contains(stages)) {
        let text = format!("stages({stages}): there is room for 2 to {MOST_STAGES} tiles");
        let legal = directive::Produce { stages: Some(stages.clamp(2, MOST_STAGES)), ..produce.clone() };
        return Err(refuse(text).edit(Edit::instead([legal])).edit(Edit::remove()));
    }
    if let Some(other) = nest.producer.filter(|other| *other != unit) {
        let loops: Vec<String> = nest.produced.iter().map(|digit| nest.digit_name(*digit)).collect();
        let alike = directive::Produce { unit: other, ..produce.clone() };
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
    nest.tile_stages.extend(produce.stages.map(|stages| (digit, stages)));
    Ok((nest, Proof::default()))
}

/// What a producer copies comes by tensor maps, in a pipelined loop or once a tile, and goes to whole warps.
fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    let unproduced = context.plan.roles().unproduced.iter().filter_map(|why| unproduced(context, *why));
    unproduced.chain(context.nest.tile_stages.keys().filter_map(|digit| ahead(context, *digit))).collect()
}

/// Room for more than one tile is of use where a CTA takes more than one, and copies are made once a tile.
fn ahead(context: &Context<'_>, digit: Digit) -> Option<Diagnostic> {
    let (nest, name) = (context.nest, context.nest.digit_name(digit));
    let by = context.last(|k| match k {
        DirectiveKind::Produce(directive::Produce { digit: of, stages: Some(_), .. }) => {
            context.is(of, digit)
        }
        _ => false,
    });
    let at = |text: String| context.at(by, SpanId::NONE, text);
    let tile = loops(&nest.body).into_iter().any(|(d, at)| d == digit && nest.is_produced_tile(d, at));
    let unit = nest.producer.unwrap_or(Unit::Warp);
    let without = Edit::instead([directive::Produce { digit: name.clone(), unit, stages: None }]);
    if !tile {
        let text =
            format!("`{name}` is no loop over tiles that CTAs have: `pipeline` says how many stages it has");
        return Some(at(text).edits([without]));
    }
    if nest.persistent.is_none() {
        let text = "there is room for more than one tile, and a CTA has one tile";
        let persistent = Edit::put([directive::Persistent { ctas: 1, serpentine: false, counter: false }]);
        return Some(at(text.into()).edits([persistent, without]));
    }
    None
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
            at(Some(digit)).edits([if copies { pipeline } else { Edit::remove() }])
        }
        // No tensor map copies rows anywhere.
        Unproduced::NoMap(digit, copy)
            if nest.copied_accesses(copy).iter().any(|a| !a.gathered.is_empty()) =>
        {
            at(Some(digit))
                .note(nest.copy(copy).span, "values say where this takes its rows")
                .edits([Edit::remove().remark("the threads that compute copy such rows")])
        }
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
