//! Staged copies: how the box of each lies in shared memory as offsets, and by which instruction a variant moves it.

use super::{
    context::Cx, control::Walk, error::LowerError, fill, flow::Flow, fragment, linear::Linear, mbarriers,
    ring, ring_stages,
};
use crate::{
    nest::{Stmt, chain},
    plan::Producer,
};

/// Stages outside of a pipeline: channels of one item.
pub(super) fn stage<'a>(cx: &mut Cx<'a>, stmt: &Stmt, walk: Walk) -> Result<(), LowerError> {
    let (copies, body) = chain(stmt);
    let channels = cx.view.plan.channels.get(None, &copies, body).iter();
    let (held, shared): (Vec<_>, Vec<_>) = channels.partition(|c| c.producer == Producer::Each);
    let flows: Vec<Flow<'a>> =
        shared.into_iter().map(|channel| ring::open(cx, channel, body)).collect::<Result<_, _>>()?;
    for flow in &flows {
        fill::fill_once(cx, flow)?;
    }
    // Asynchronous copies have the longest time.
    for flow in flows.iter().rev() {
        let position = ring::await_stage(cx, flow);
        if let (Some(channel), Some(position)) = (&flow.mbarriers, position) {
            ring_stages::advance(cx, channel, position);
        }
    }
    let outside = cx.env.stages.len();
    let copies = flows.iter().flat_map(|flow| &flow.copies);
    cx.env.stages.extend(copies.map(|p| p.active(Linear::default())));
    match held.first() {
        Some(channel) => fragment::hold_fragments(cx, &channel.copies, body, walk)?,
        None => walk(cx, body)?,
    }
    cx.env.stages.truncate(outside);
    for flow in flows.iter().filter(|flow| flow.mbarriers.is_some()) {
        mbarriers::fence_reads(cx, flow);
    }
    Ok(())
}
