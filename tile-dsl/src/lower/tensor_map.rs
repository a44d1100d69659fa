//! Tensor maps: parameters of the kernel, and the boxes that copies and stores move through them.
//!
//! Source: PTX ISA 5.5 (tensors, boxes), 9.7.9.27 (`cp.async.bulk.tensor`).

use super::{context::Cx, emit::Emit, flow::CopyPlan, linear::Linear};
use crate::{
    dtype::DType,
    kernel::{Expr as KExpr, Param},
    nest::CopyLayout,
    tile::TensorId,
};

/// What a tensor map is of.
pub(super) struct MapOf<'l> {
    pub tensor: TensorId,
    pub layout: &'l CopyLayout,
    /// Elements of the box, by dimension of the tensor.
    pub extents: &'l [u64],
    pub swizzle: u32,
    /// Boxes are stored by it; what a directive has collected covers its tensor.
    pub stored: bool,
}

/// The tensor map of a copy, a parameter of the kernel.
pub(super) fn tensor_map(cx: &mut Cx<'_>, plan: &CopyPlan<'_>) -> u32 {
    let extents = plan.of.sides(plan.size);
    let swizzle = cx.view.nest.copy(plan.of.copy).swizzle;
    map_of(
        cx,
        &MapOf { tensor: plan.tensor, layout: &plan.of.layout, extents: &extents, swizzle, stored: false },
    )
}

/// A tensor map, the same for all boxes that are alike.
pub(super) fn map_of(cx: &mut Cx<'_>, of: &MapOf<'_>) -> u32 {
    let MapOf { tensor, layout, extents, swizzle, stored } = *of;
    let dims: Vec<u32> = layout.order.iter().rev().map(|d| *d as u32).collect();
    let points = |d: &usize| match layout.panel {
        Some(width) if *d == layout.contiguous => width as u32,
        _ => extents[*d] as u32,
    };
    let tile: Vec<u32> = layout.order.iter().rev().map(points).collect();
    let id = u32::from(tensor.0);
    let same = |p: &Param| {
        matches!(p, Param::TensorMap { tensor: t, tile: b, swizzle: s, stored: w, .. }
            if (*t, b, *s, *w) == (id, &tile, swizzle, stored))
    };
    if let Some(known) = cx.build.params.iter().position(same) {
        return known as u32;
    }
    let base = format!("{}.map", cx.view.tensor(tensor).name);
    let name = crate::shared::unique(&base, |n| cx.build.params.iter().any(|p| p.name() == n));
    cx.build.params.push(Param::TensorMap { name, tensor: id, dims, tile, swizzle, stored });
    cx.build.params.len() as u32 - 1
}

/// Coordinates and offset of one of the panels of a box, fastest dimension first.
pub(super) fn panel(
    cx: &mut Cx<'_>,
    layout: &CopyLayout,
    corner: &[Linear],
    to: &Linear,
    piece: u64,
) -> (Vec<KExpr>, KExpr) {
    let mut coordinates = Vec::new();
    for dim in layout.order.iter().rev() {
        let mut at = corner[*dim].clone();
        if *dim == layout.contiguous {
            at.constant += (piece * layout.panel.unwrap_or(0)) as i64;
        }
        coordinates.push(cx.build.emit.index(&at).expr());
    }
    let mut to = to.clone();
    to.constant += (piece * layout.rows() * layout.panel.unwrap_or(0)) as i64;
    let (base, constant) = cx.build.emit.index_base(&to);
    (coordinates, Emit::sum_expr(base, constant, DType::I32))
}
