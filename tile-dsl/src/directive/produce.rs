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
    machine::{Space, Unit, Via},
    nest::{Digit, Frame, LoopKind, ValueId, WARP, WARPGROUP, leaves, loops, threads},
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
    let nest = context.nest;
    let mut wrong = Vec::new();
    for digit in &nest.produced {
        let name = nest.digit_name(*digit);
        let by =
            context.last(|k| matches!(k, DirectiveKind::Produce(directive::Produce { digit: d, .. }) if context.is(d, *digit)));
        let copies = nest.copies_in(*digit);
        let own = loops(&nest.body).into_iter().filter(|(d, _)| d == digit);
        let pipelined = own.map(|(_, kind)| kind).all(|kind| matches!(kind, LoopKind::Pipe(_)));
        if copies.is_empty() || !pipelined {
            let text = format!("`{name}` has no pipeline whose copies a producer could make");
            let pipeline = DirectiveKind::Pipeline(directive::Pipeline { digit: name.clone(), stages: 2 });
            let edit = (!copies.is_empty()).then(|| Edit::put([pipeline]));
            wrong.push(context.at(by, SpanId::NONE, text).edits(edit));
            continue;
        }
        if let Some(id) = copies.into_iter().find(|c| nest.copy(*c).via != Via::Tma) {
            let (copy, buffer) = (nest.copy(id), nest.copy_name(id));
            let text = format!(
                "a producer copies by tensor maps, and `{buffer}` is copied by {}",
                if copy.space == Space::Register {
                    "each thread into its registers"
                } else {
                    "the threads that compute"
                }
            );
            wrong.push(
                context
                    .at(by, SpanId::NONE, text)
                    .note(copy.span, format!("`{buffer}` is staged here"))
                    .remark(format!("`stage({buffer} at {name}: shared, tma)`")),
            );
        }
    }
    if nest.producer.is_none() {
        return wrong;
    }
    wrong.extend(behind_a_split(context));
    let by = context.last(|k| matches!(k, DirectiveKind::Produce(_)));
    let each = threads(nest);
    let threads = context.computing();
    if !each.is_multiple_of(WARP.into()) {
        let text = format!("{each} threads compute: with a producer they have to be whole warps");
        wrong.push(context.at(by, SpanId::NONE, text).edits([Edit::remove()]));
    }
    if nest.producer == Some(Unit::Warpgroup) && !each.is_multiple_of(WARPGROUP.into()) {
        let text =
            format!("{each} threads compute: with a warpgroup that copies they have to be whole warpgroups");
        wrong.push(context.at(by, SpanId::NONE, text).edits([Edit::remove()]));
    }
    let (producing, most) = (nest.producing(), u64::from(context.schedule.target.threads()));
    if threads + u64::from(producing) > most {
        let text = format!("{threads} threads compute and {producing} copy, but a CTA has at most {most}");
        wrong.push(context.at(by, SpanId::NONE, text).edits([Edit::remove()]));
    }
    wrong
}

/// What follows a reduction that CTAs share is run by some of them, or for a share of it. A producer does not learn of that: it
/// would fill stages that nobody empties, or others than are read.
fn behind_a_split(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let mut found: Option<(Digit, ValueId)> = None;
    leaves(&nest.body, &mut |path, _| {
        let shared = path.iter().enumerate().find_map(|(n, frame)| match frame {
            Frame::Rest(values) => values.iter().find(|v| nest.across.contains_key(v)).map(|v| (n, *v)),
            _ => None,
        });
        let Some((n, value)) = shared else { return };
        let produced = path[n..].iter().find_map(|frame| match frame {
            Frame::For(digit, _) if nest.produced.contains(digit) => Some(*digit),
            _ => None,
        });
        if let Some(digit) = produced {
            found.get_or_insert((digit, value));
        }
    });
    let (digit, value) = found?;
    let (name, value) = (nest.digit_name(digit), nest.value(value));
    let by = context.last(
        |k| matches!(k, DirectiveKind::Produce(directive::Produce { digit: d, .. }) if context.is(d, digit)),
    );
    let who = match nest.cluster_reduces() {
        true => "each CTA of the cluster continues with its share alone",
        false => "only one of them continues",
    };
    let text = format!(
        "the loop over `{name}` comes after `{}`, which CTAs reduce together, and {who}: the producers of all of them would copy",
        value.name
    );
    Some(
        context
            .at(by, SpanId::NONE, text)
            .note(value.span, format!("`{}` is computed here", value.name))
            .edits([Edit::remove().remark("the threads that compute copy themselves")]),
    )
}
