//! Staged copies: how the box of each lies in shared memory as offsets, and by which instruction a variant moves it.

use super::{
    context::Cx,
    copy::CopyPlan,
    digits,
    env::Staged,
    error::LowerError,
    fill, fragment,
    guard::{self, Sides},
    layout,
    linear::Linear,
    mbarriers,
    pipeline::{self, Flow},
    slots, tensor_map, walk,
};
use crate::{
    nest::{CopyId, Digit, Stmt, TileSize, chain},
    plan::Producer,
    schedule::Via,
    shared::Content,
};

/// Stages outside of a pipeline: channels of one item.
pub(super) fn stage<'a>(cx: &mut Cx<'a>, stmt: &Stmt) -> Result<(), LowerError> {
    let (copies, body) = chain(stmt);
    let channels = cx.view.plan.channels.get(None, &copies).iter();
    let (held, shared): (Vec<_>, Vec<_>) = channels.partition(|c| c.producer == Producer::Each);
    let flows: Vec<Flow<'a>> =
        shared.into_iter().map(|channel| pipeline::open(cx, channel, body)).collect::<Result<_, _>>()?;
    for flow in &flows {
        fill::fill_once(cx, flow);
    }
    // What completes on its own has the longest time.
    for flow in flows.iter().rev() {
        let position = pipeline::await_slot(cx, flow, body);
        if let (Some(channel), Some(position)) = (&flow.mbarriers, position) {
            slots::advance(cx, channel, position);
        }
    }
    let outside = cx.env.stages.len();
    let copies = flows.iter().flat_map(|flow| &flow.copies);
    cx.env.stages.extend(copies.map(|p| p.active(Linear::default())));
    match held.first() {
        Some(channel) => fragment::hold_fragments(cx, &channel.copies, body)?,
        None => walk::stmt(cx, body)?,
    }
    cx.env.stages.truncate(outside);
    for flow in flows.iter().filter(|flow| flow.mbarriers.is_some()) {
        mbarriers::fence_reads(cx, &flow.copies, body);
    }
    Ok(())
}

/// Where a copy goes and what it takes, at the current point; `depth` copies fit in its buffer.
pub(super) fn plan<'a>(
    cx: &mut Cx<'a>,
    copy: CopyId,
    body: &Stmt,
    depth: u32,
) -> Result<CopyPlan<'a>, LowerError> {
    let c = cx.view.nest.copy(copy);
    let name = || cx.view.nest.copy_name(copy);
    let planned = cx.view.plan;
    let Some(of) = planned.boxes.get(cx.view.nest, copy, body) else {
        return Err(LowerError::Malformed(format!("no box of `{}` is planned here", name())));
    };
    let dtype = cx.view.nest.elem(c.tensor);
    let outer = digits::digits(cx);
    let sides = |dim| {
        let reads = of.reads.iter().map(|(access, inner)| {
            let digits: Vec<Digit> = outer.iter().chain(inner).copied().collect();
            guard::sides(cx, c.tensor, dim, &cx.view.nest.access(*access).index[dim], &digits)
        });
        reads.fold(Sides::default(), Sides::or)
    };
    let layout = layout::layout_of(&of.layout, dtype, c.swizzle, depth);
    let elems = layout.elems.checked_mul(depth.into()).filter(|n| u32::try_from(*n).is_ok());
    let Some(elems) = elems else {
        return Err(LowerError::Malformed(format!("a copy of `{}` has {} elements", name(), layout.elems)));
    };
    let buffer = cx.view.shared_buffer(Content::Copy(copy), elems as u64)?;
    let size = if cx.env.tile.last.is_some() { TileSize::Last } else { TileSize::Whole };
    let mut plan = CopyPlan {
        of,
        size,
        tensor: c.tensor,
        dtype,
        buffer,
        height: cx.env.stack.len(),
        layout,
        extent: of.extents(size).iter().map(|points| *points as i64).collect(),
        sides: (0..of.low.len()).map(sides).collect(),
        vector: 1,
        asynchronous: false,
        map: None,
    };
    choose_move(cx, &mut plan, c.via, c.vector)?;
    if c.via == Via::Tma {
        plan.map = Some(tensor_map::tensor_map(cx, &plan));
    }
    Ok(plan)
}

/// Vector width and instruction of a copy, in this variant.
fn choose_move(
    cx: &Cx<'_>,
    plan: &mut CopyPlan<'_>,
    via: Via,
    vector: Option<u32>,
) -> Result<(), LowerError> {
    let name = &cx.view.tensor(plan.tensor).name;
    let elem = plan.dtype.bytes();
    let fastest = cx.view.nest.contiguous(plan.tensor);
    let vectors = cx.view.variant != crate::program::Variant::General;
    if let Some(bytes) = vector.filter(|b| vectors && *b > elem) {
        let n = bytes / elem;
        let row = plan.extent.get(fastest).copied().unwrap_or(1);
        let starts = base(cx, plan);
        let aligned = starts.get(fastest).is_none_or(|b| cx.build.emit.is_multiple(b, n.into()));
        if bytes > 16 || !bytes.is_power_of_two() || row % i64::from(n) != 0 || !aligned {
            return Err(LowerError::Malformed(format!(
                "the copy of `{name}` moves {bytes} bytes at once, its rows have {row} elements{}",
                if aligned { "" } else { " and start between" }
            )));
        }
        plan.vector = n;
    }
    plan.asynchronous = cx.view.nest.is_asynchronous(plan.of.copy, vectors);
    if via == Via::CpAsync && vectors && !plan.asynchronous {
        let bytes = plan.vector * elem;
        return Err(LowerError::Malformed(format!("cp.async of `{name}` moves {bytes} bytes at once")));
    }
    let contiguous =
        plan.vector == 1 || (plan.layout.fastest == fastest && plan.layout.keeps_aligned(plan.vector.into()));
    if plan.asynchronous && !contiguous {
        return Err(LowerError::Malformed(format!(
            "cp.async of `{name}` moves {} elements that do not lie side by side in its copy",
            plan.vector
        )));
    }
    Ok(())
}

/// First element of the box, by dimension, from the digits bound outside.
pub(super) fn base(cx: &Cx<'_>, plan: &CopyPlan<'_>) -> Vec<Linear> {
    let index = &cx.view.nest.access(plan.of.reads[0].0).index;
    let base = index.iter().zip(&plan.of.low).map(|(index, low)| {
        let mut at = cx.env.index_from(index, 0);
        at.constant += low;
        at
    });
    base.collect()
}

impl<'p> CopyPlan<'p> {
    /// The stage that reads this copy.
    pub fn active(&self, slot: Linear) -> Staged<'p> {
        Staged {
            of: self.of,
            tensor: self.tensor,
            buffer: self.buffer,
            height: self.height,
            layout: self.layout.clone(),
            slot,
        }
    }
}
