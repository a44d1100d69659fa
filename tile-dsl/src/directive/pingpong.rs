//! `pingpong`: groups of the threads that compute, each with a tile of its own, take turns: one multiplies while another stores.
//!
//! It rewrites no statement. Conditions: 2 to 4 groups, and one pipeline a tile that a producer fills, at whose end a group passes
//! its turn on. What they share and what each has of its own, the complete schedule shows.
//! Cost: registers of the sums of each group, and tiles of one group's size.
//! Source: CUTLASS, efficient GEMM (warp specialisation, cooperative and ping-pong kernels).

use super::prelude::*;
use crate::{
    engine::families::assume::refuse,
    machine::Unit,
    nest::{Digit, Frame, LoopKind, leaves, loops},
    shared::Content,
};

directive! {
    /// `pingpong(2)`: so many groups of the threads that compute, each with a tile of its own, take turns.
    "pingpong(2)" in Launch, 0:
    Pingpong { groups: u32 } => |s| s.number(groups)
}

impl Definition for Pingpong {
    const CHECK: Option<Check> = Some((Shows::Turns, check));

    fn apply(&self, nest: &Nest, _: SpanId) -> Applied {
        pingpong(nest, self.groups)
    }
}

impl Drawn for Pingpong {
    const ORDERS: bool = true;

    fn beside(_: Kind) -> &'static [&'static [Kind]] {
        &[PRODUCERS, &[Kind::Persistent]]
    }

    fn candidates(_: Kind, _: &mut Generator<'_>, _: &Wish<'_>) -> Vec<DirectiveKind> {
        vec![Pingpong { groups: 2 }.into()]
    }
}

/// `pingpong(groups)`.
fn pingpong(nest: &Nest, groups: u32) -> Result<(Nest, Proof), Failure> {
    if !(2..=4).contains(&groups) {
        let two = DirectiveKind::Pingpong(directive::Pingpong { groups: 2 });
        return Err(refuse(format!("pingpong({groups}): 2 to 4 groups take turns"))
            .edit(Edit::instead([two]))
            .edit(Edit::remove()));
    }
    Ok((Nest { pingpong: Some(groups), ..nest.clone() }, Proof::default()))
}

/// Why a tile has one produced pipeline. An mbarrier tells one phase from the next alone, so a group waits only while it knows that
/// all copies before its own have come.
const ONE_TURN: &str = "a group has one turn a tile, which ends with its pipeline: it would wait for the copies of another one outside of its turn";

/// What groups of threads that take tiles in turn share, and what each has of its own.
fn turns(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let groups = nest.pingpong?;
    let by = context.last(|k| matches!(k, DirectiveKind::Pingpong(_)));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    let without = || Edit::remove();
    if nest.persistent.is_none() {
        let text = format!("{groups} groups take tiles in turn, and a CTA has one tile");
        let persistent = Edit::put([directive::Persistent { ctas: 1, serpentine: false, counter: false }]);
        return Some(at(text).edits([persistent, without()]));
    }
    let pipes: Vec<Digit> = loops(&nest.body)
        .into_iter()
        .filter(|(_, kind)| matches!(kind, LoopKind::Pipe(_)))
        .map(|(digit, _)| digit)
        .collect();
    if nest.producer.is_none() {
        let produce = pipes.iter().map(|d| {
            Edit::put([directive::Produce { digit: nest.digit_name(*d), unit: Unit::Warp, stages: None }])
        });
        let text = "one group multiplies while another stores, so a producer has to copy for all groups: there is none";
        return Some(at(text.into()).edits(produce).edits([without()]));
    }
    if nest.serpentine_rounds {
        let text = "a group leaves out the steps of the tile that another has before its own, which in a round that is taken backwards is not the one before";
        let ctas = nest.persistent.unwrap_or(1);
        let straight = Edit::put([directive::Persistent { ctas, serpentine: false, counter: false }]);
        return Some(at(text.into()).edits([straight, without()]));
    }
    if let Some((tile, _)) = loops(&nest.body).into_iter().find(|(d, at)| nest.is_produced_tile(*d, *at)) {
        let text = format!(
            "a producer copies once a tile of `{}`, and for the steps of a pipeline: {ONE_TURN}",
            nest.digit_name(tile)
        );
        return Some(at(text).edits([without()]));
    }
    let produced: Vec<Digit> = pipes.iter().copied().filter(|d| nest.produced.contains(d)).collect();
    if let [first, second, ..] = produced[..] {
        let name = |d| nest.digit_name(d);
        let text = if first == second {
            format!("the pipeline over `{}` is in a tile twice: {ONE_TURN}", name(first))
        } else {
            format!(
                "a tile has two pipelines that a producer fills, over `{}` and over `{}`: {ONE_TURN}",
                name(first),
                name(second)
            )
        };
        return Some(at(text).edits([without()]));
    }
    if let Some((pipe, around)) = repeated(context) {
        let text = format!(
            "the pipeline over `{}` runs again in each step of `{}`: {ONE_TURN}",
            nest.digit_name(pipe),
            nest.digit_name(around)
        );
        return Some(at(text).edits([without()]));
    }
    own_buffers(context, groups).map(|text| at(text).edits([without()]))
}

/// The produced pipeline, and a loop around it that enters it more than once a tile.
fn repeated(context: &Context<'_>) -> Option<(Digit, Digit)> {
    let nest = context.nest;
    let mut found = None;
    leaves(&nest.body, &mut |path, _| {
        let own = |f: &Frame| matches!(f, Frame::For(d, LoopKind::Pipe(_)) if nest.produced.contains(d));
        let Some(at) = path.iter().position(own) else { return };
        let Frame::For(pipe, _) = path[at] else { return };
        let around = path[..at].iter().find_map(|f| match f {
            Frame::For(_, LoopKind::Unit(..)) => None,
            Frame::For(d, _) if d.steps != crate::nest::Steps::Fixed(1) => Some(*d),
            _ => None,
        });
        found = found.or(around.map(|around| (pipe, around)));
    });
    found
}

/// What each group would need a buffer of its own for.
fn own_buffers(context: &Context<'_>, groups: u32) -> Option<String> {
    let nest = context.nest;
    context.shared().buffers.iter().find_map(|buffer| match buffer.content {
        Content::Full(_)
        | Content::Empty(_)
        | Content::Output(..)
        | Content::Turn
        | Content::Numbers
        | Content::NumberFull
        | Content::NumberEmpty
        | Content::Verdict
        | Content::Again
        | Content::Ticket
        | Content::Before(_) => None,
        Content::Copy(copy) => {
            let produced = nest.produced.iter().any(|d| nest.copies_in(*d).contains(&copy));
            (!produced).then(|| {
                let name = nest.copy_name(copy);
                format!(
                    "`{name}` is copied by the threads that compute: of {groups} groups each would need a copy of its own"
                )
            })
        }
        Content::Value(value) | Content::Partial(value) | Content::Parts(value) => Some(format!(
            "`{}` is held in shared memory: each of {groups} groups would need its own",
            nest.value(value).name
        )),
    })
}

fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    turns(context).into_iter().collect()
}
