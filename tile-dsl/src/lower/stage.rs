//! Staged copies: how the box of each lies in shared memory as offsets, and by which instruction a variant moves it.

use super::{
    context::Cx, control::Walk, copy, emit::Atom, error::LowerError, fill, flow::Flow, fragment, lets,
    linear::Linear, mbarriers, ring, ring_stages,
};
use crate::{
    nest::{Nest, Stmt, chain, leaves},
    plan::Producer,
};

/// Stages outside of a pipeline: channels of one item, or, where a producer fills them, of an item a tile.
pub(super) fn stage<'a>(cx: &mut Cx<'a>, stmt: &Stmt, walk: Walk) -> Result<(), LowerError> {
    let (copies, body) = chain(stmt);
    let channels = cx.view.plan.channels.get(None, &copies, body).iter();
    let (held, shared): (Vec<_>, Vec<_>) = channels.partition(|c| c.producer == Producer::Each);
    let flows: Vec<Flow<'a>> =
        shared.into_iter().map(|channel| ring::open(cx, channel, body)).collect::<Result<_, _>>()?;
    for flow in flows.iter().filter(|flow| !is_produced(flow)) {
        fill::fill_once(cx, flow)?;
    }
    let mut stages = vec![None; flows.len()];
    // Asynchronous copies have the longest time.
    for (flow, stage) in flows.iter().zip(&mut stages).rev() {
        let position = ring::await_stage(cx, flow);
        if let (Some(channel), Some(position)) = (&flow.mbarriers, position) {
            ring_stages::advance(cx, channel, position);
            *stage = is_produced(flow).then_some(position[0]);
        }
    }
    let outside = cx.env.stages.len();
    for (flow, stage) in flows.iter().zip(&stages) {
        for plan in &flow.copies {
            let from = stage.map_or_else(Linear::default, |stage| copy::stage_at(cx, plan, stage));
            cx.env.stages.push(plan.active(from));
        }
    }
    let produced: Vec<_> =
        flows.iter().zip(stages).filter_map(|(flow, stage)| Some((flow, stage?))).collect();
    // A producer fills no registers.
    match held.first() {
        Some(channel) => fragment::hold_fragments(cx, &channel.copies, body, walk)?,
        None if produced.is_empty() => walk(cx, body)?,
        None => return until_read(cx, &produced, body, (outside, walk)),
    }
    cx.env.stages.truncate(outside);
    for flow in flows.iter().filter(|flow| flow.mbarriers.is_some()) {
        mbarriers::fence_reads(cx, flow);
    }
    Ok(())
}

/// Whether threads fill it that do nothing else.
fn is_produced(flow: &Flow<'_>) -> bool {
    matches!(flow.plan.producer, Producer::Role(_))
}

/// What reads the stages of produced channels; they are given back as soon as nothing more does.
fn until_read<'a>(
    cx: &mut Cx<'a>,
    produced: &[(&Flow<'a>, Atom)],
    body: &Stmt,
    (outside, walk): (usize, Walk),
) -> Result<(), LowerError> {
    let done = |cx: &mut Cx<'a>| {
        cx.env.stages.truncate(outside);
        for (flow, stage) in produced {
            mbarriers::fence_reads(cx, flow);
            flow.mbarriers.iter().for_each(|channel| mbarriers::release(cx, channel, *stage));
        }
    };
    match body {
        Stmt::Let { values, first, rest } => {
            let compute = |cx: &mut Cx<'a>| walk(cx, first);
            lets::bound(cx, values, first, &compute, &|cx| {
                if produced.iter().any(|(flow, _)| is_read(cx.view.nest, flow, rest)) {
                    return until_read(cx, produced, rest, (outside, walk));
                }
                done(cx);
                walk(cx, rest)
            })
        }
        body => {
            walk(cx, body)?;
            done(cx);
            Ok(())
        }
    }
}

/// Whether a statement reads copies of a channel.
fn is_read(nest: &Nest, flow: &Flow<'_>, stmt: &Stmt) -> bool {
    let mut found = false;
    leaves(stmt, &mut |_, leaf| {
        let accesses = leaf.leaf().map(|(_, expr)| expr.accesses()).unwrap_or_default();
        let served = |access: &_| flow.plan.copies.iter().any(|copy| nest.serves(*copy, *access));
        found |= accesses.iter().any(served);
    });
    found
}
