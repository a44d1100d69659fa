//! `pingpong`: what groups of threads that take tiles in turn share, and what each has of its own. `alternate`: loops whose
//! steps may run in any order, tile after tile.

use super::Context;
use crate::{
    diagnostic::{Diagnostic, Edit},
    nest::{Digit, Frame, LoopKind, leaves, loops},
    schedule::{DirectiveKind, Unit},
    shared::{Allocation, Content},
    span::SpanId,
};

pub(super) fn check(context: &Context<'_>) -> Vec<Diagnostic> {
    turns(context).into_iter().chain(alternating(context)).collect()
}

/// Loops that run backwards for every second tile: a CTA has a second one, and nothing goes from step to step but sums.
fn alternating(context: &Context<'_>) -> Vec<Diagnostic> {
    context.nest.alternate.iter().filter_map(|digit| backwards(context, *digit)).collect()
}

fn backwards(context: &Context<'_>, digit: Digit) -> Option<Diagnostic> {
    let nest = context.nest;
    let name = nest.digit_name(digit);
    let by = context.last(|k| matches!(k, DirectiveKind::Alternate { digit: d } if context.is(d, digit)));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    if nest.persistent.is_none() {
        let text = format!("`{name}` runs backwards for every second tile, and a CTA has one tile");
        let persistent = Edit::put([DirectiveKind::Persistent { ctas: 1 }]);
        return Some(at(text).edits([persistent, Edit::instead([])]));
    }
    let value = nest.value(nest.carried_by(digit)?);
    let text = format!("steps of `{name}` cannot run backwards: `{}` goes from each to the next", value.name);
    let note = format!("`{}` is carried here", value.name);
    Some(at(text).note(value.span, note).edits([Edit::instead([])]))
}

fn turns(context: &Context<'_>) -> Option<Diagnostic> {
    let nest = context.nest;
    let groups = nest.pingpong?;
    let by = context.last(|k| matches!(k, DirectiveKind::Pingpong { .. }));
    let at = |text: String| context.at(by, SpanId::NONE, text);
    let without = || Edit::instead([]);
    if nest.persistent.is_none() {
        let text = format!("{groups} groups take tiles in turn, and a CTA has one tile");
        let persistent = Edit::put([DirectiveKind::Persistent { ctas: 1 }]);
        return Some(at(text).edits([persistent, without()]));
    }
    let pipes: Vec<Digit> = loops(&nest.body)
        .into_iter()
        .filter(|(_, kind)| matches!(kind, LoopKind::Pipe(_)))
        .map(|(digit, _)| digit)
        .collect();
    if nest.producer.is_none() {
        let produce = pipes
            .iter()
            .map(|d| Edit::put([DirectiveKind::Produce { digit: nest.digit_name(*d), unit: Unit::Warp }]));
        let text =
            "while one group multiplies another stores: that takes a producer that copies for all of them";
        return Some(at(text.into()).edits(produce).edits([without()]));
    }
    let produced: Vec<Digit> = pipes.iter().copied().filter(|d| nest.produced.contains(d)).collect();
    if let [first, second, ..] = produced[..] {
        let name = |d| nest.digit_name(d);
        let text = if first == second {
            format!("the pipeline over `{}` stands twice in a tile: a group has one turn a tile", name(first))
        } else {
            format!(
                "a tile has two pipelines that a producer fills, over `{}` and over `{}`: a group has one turn a tile",
                name(first),
                name(second)
            )
        };
        return Some(at(text).edits([without()]));
    }
    if let Some((pipe, around)) = repeated(context) {
        let text = format!(
            "the pipeline over `{}` is entered in each step of `{}`: a group has one turn a tile",
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
    let buffers = Allocation::of(nest).buffers;
    buffers.iter().find_map(|buffer| match buffer.content {
        Content::Full(_) | Content::Empty(_) | Content::Output(..) | Content::Turn => None,
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
            "`{}` takes shared memory: of {groups} groups each would need its own",
            nest.value(value).name
        )),
    })
}
