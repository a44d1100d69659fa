//! Where the copies of a channel go, what they take at the current point, and by which instruction.

use super::{
    context::Cx,
    digits,
    error::LowerError,
    flow::CopyPlan,
    guard::{self, Sides},
    layout,
    linear::Linear,
    tensor_map,
};
use crate::{
    index::Extent,
    machine::Via,
    nest::{CopyId, Digit, Stmt},
    plan::CopyBox,
    shared::Content,
    tile::TensorId,
};

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
        // Where values say, they are compared with the extent wherever they are looked up.
        let Some(extent) = extent(cx, of, c.tensor, dim) else { return Sides::default() };
        let reads = of.reads.iter().map(|(access, inner)| {
            let digits: Vec<Digit> = outer.iter().chain(inner).copied().collect();
            guard::sides(cx, extent, &cx.view.nest.access(*access).index[dim], &digits)
        });
        reads.fold(Sides::default(), Sides::or)
    };
    let layout = layout::layout_of(&of.layout, dtype, c.swizzle, depth);
    let buffer = cx.view.shared_buffer(Content::Copy(copy), of.place)?;
    let size = cx.env.tile.size;
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

/// What the place in a copy is counted along in a dimension: that of its tensor, or the axis of its rows. Nothing where values
/// alone say.
pub(super) fn extent<'a>(cx: &Cx<'a>, of: &CopyBox, tensor: TensorId, dim: usize) -> Option<&'a Extent> {
    match of.gathered.get(&dim) {
        None => Some(&cx.view.tensor(tensor).dims[dim]),
        Some(gathered) => {
            let counts = cx.view.nest.access(of.reads[0].0).row_of(dim) == Some(dim);
            let row = gathered.row.filter(|_| counts)?;
            Some(&cx.view.nest.kernel.axes[usize::from(row.0)].extent)
        }
    }
}

/// Vector width and instruction of a copy, in this variant.
pub(super) fn choose_move(
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
