//! Global memory: how the dimensions of a tensor lie there, and which barriers its accesses need.

use super::{
    context::Cx,
    emit::{self, Atom},
    linear::Pitch,
    sync::{Owners, Touch},
};
use crate::{
    assume::stride,
    dtype::DType,
    index::Extent,
    machine::Unit,
    nest::{AccessId, LoopKind, Steps},
    program::Variant,
    tile::{self, TensorId},
};
use std::collections::{BTreeMap, BTreeSet};

/// Weight of each dimension of a tensor.
pub(super) fn pitches(cx: &mut Cx<'_>, id: TensorId) -> Vec<Pitch> {
    if let Some(known) = cx.build.pitches.get(&id) {
        return known.clone();
    }
    let tensor = cx.view.tensor(id);
    let ty = cx.view.offset_ty(id);
    let wide = ty == DType::I64 && !is_small(tensor);
    let fastest_first = cx.view.nest.fastest_first(id);
    let mut pitches = vec![Pitch::Fixed(1); tensor.dims.len()];
    // What lies between two indices of the slowest dimension is assumed to fit 32 bits where variants assume anything.
    let row_ty = if cx.view.variant == Variant::General { ty } else { DType::I32 };
    let mut pitch = Atom::Int(1, row_ty);
    for (n, d) in fastest_first.iter().copied().enumerate() {
        let weight = match pitch {
            Atom::Int(n, _) => Atom::Int(n, ty),
            pitch if cx.build.emit.ty(pitch) == ty => pitch,
            pitch => cx.build.emit.op(emit::Op::Cast(ty), &[pitch]),
        };
        pitches[d] = match weight {
            Atom::Var(var) => Pitch::Var(var),
            Atom::Int(n, _) if wide && n != 1 => Pitch::Wide(n),
            Atom::Int(n, _) => Pitch::Fixed(n),
            Atom::Float(..) | Atom::Bool(_) => unreachable!("a pitch is an integer"),
        };
        if n + 1 == fastest_first.len() {
            break;
        }
        if cx.view.given.strided.contains(&id) {
            let next = Extent::dim(&stride(tensor, fastest_first[n + 1]));
            let next = cx.build.emit.dim(&next);
            pitch = cx.build.emit.op(emit::Op::Cast(row_ty), &[next]);
            continue;
        }
        let extent = cx.build.emit.dim(&tensor.dims[d]);
        let extent = cx.build.emit.op(emit::Op::Cast(row_ty), &[extent]);
        pitch = cx.build.emit.bin(crate::op::BinOp::Mul, pitch, extent);
    }
    cx.build.pitches.insert(id, pitches.clone());
    pitches
}

/// About to load an element of a tensor from global memory. Elements that the kernel stores, too, must be read before
/// another thread stores them.
pub(super) fn read_global(cx: &mut Cx<'_>, access: AccessId) {
    let index = &cx.view.nest.accesses[usize::from(access.0)];
    if !cx.view.plan.accesses.in_place.contains(&index.tensor) {
        return;
    }
    let touch =
        Touch { mem: cx.view.global(index.tensor), owners: owners(cx, access, cx.env.owner.is_some()) };
    if cx.build.sync.read(touch) {
        cx.build.emit_barrier();
    }
}

/// About to store an element of a tensor to global memory: one of those that do the same work does.
pub(super) fn write_global(cx: &mut Cx<'_>, access: AccessId) {
    let index = &cx.view.nest.accesses[usize::from(access.0)];
    if !cx.view.plan.accesses.in_place.contains(&index.tensor) {
        return;
    }
    let touch = Touch { mem: cx.view.global(index.tensor), owners: owners(cx, access, true) };
    // All loops around it move it: each step stores elements of its own.
    if cx.build.sync.write(touch, 0) {
        cx.build.emit_barrier();
    }
}

/// The thread that makes an access at the current point; `first`: where several do the same, the first of them
/// alone. `None` where several make it.
pub(super) fn owners(cx: &Cx<'_>, access: AccessId, first: bool) -> Option<Owners> {
    let index = &cx.view.nest.accesses[usize::from(access.0)].index;
    let mut owners = Owners { spread: BTreeMap::new(), first: BTreeSet::new() };
    let mut free: BTreeSet<_> = cx.env.tile.units.dims.keys().copied().collect();
    for bound in &cx.env.stack {
        let LoopKind::Unit(unit, dim) = bound.at else { continue };
        free.remove(&(unit, dim));
        if bound.digit.steps == Steps::Fixed(1) || unit == Unit::Block {
            continue;
        }
        let axis = bound.digit.axis;
        if index.iter().all(|i| i.coefficient(axis) == 0) {
            return None;
        }
        let digit = (unit, dim, bound.digit.stride, bound.digit.steps);
        owners.spread.entry(axis).or_default().insert(digit);
    }
    if !free.is_empty() && !first {
        return None;
    }
    owners.first = free;
    Some(owners)
}

/// Whether offsets into a tensor fit 32 bits whatever the launch.
fn is_small(tensor: &tile::Tensor) -> bool {
    let elems = tensor.dims.iter().try_fold(1i64, |n, d| n.checked_mul(d.as_constant()?));
    elems.is_some_and(|n| n < 1 << 30)
}
