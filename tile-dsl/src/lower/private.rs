//! Private tiles: a CTA combines values with a part of a tensor that it has to itself, in shared memory, and that part with the
//! tensor once.
//!
//! ```text
//! (for e: store shared h[e] = neutral) ; barrier            // before the first value of a tile
//! (put h[*b] sum E)  →  combine shared h[..] sum E          // as often as values are combined
//! barrier ; (for e: x = shared h[e]; combine h[..] sum x if x != neutral)
//! ```
//! Threads go through the elements in the same order at both ends, so each clears what it has read itself, and tiles that a
//! persistent CTA takes one after the other need no barrier more.
//! Source: PTX ISA 9.7.13.9 (`red`).

use super::{
    context::Cx,
    emit::{Atom, Emit, linear, literal},
    error::LowerError,
    gather::Place,
    linear::{Linear, Offset},
    memory, store,
};
use crate::{
    dtype::DType,
    index::Affine,
    kernel::{self, Expr as KExpr, Mem},
    machine::Unit,
    nest::{AccessId, LoopKind, PrivateTile},
    op::{BinOp, CmpOp, RedOp},
    plan::StorePath,
    shared::Content,
    tile::TensorId,
};

/// A tile, and what it is of.
struct Own<'a> {
    tile: &'a PrivateTile,
    access: AccessId,
    tensor: TensorId,
    op: RedOp,
    dtype: DType,
    buffer: u32,
}

/// The tiles that the CTA has to itself.
fn all<'a>(cx: &Cx<'a>) -> Result<Vec<Own<'a>>, LowerError> {
    let (nest, plan) = (cx.view.nest, cx.view.plan);
    let tiles = nest.private.keys().filter_map(|tensor| {
        let store = plan.stores.collected(nest, *tensor)?;
        let Ok(StorePath::Private(tile)) = &store.how else { return None };
        let (op, _) = nest.access(store.access).combines.as_ref()?;
        Some((tile, store.access, *tensor, *op))
    });
    let own = tiles.map(|(tile, access, tensor, op)| {
        let buffer = cx.view.shared_buffer(Content::Output(tensor, cx.env.tile.group), 0)?;
        Ok(Own { tile, access, tensor, op, dtype: nest.elem(tensor), buffer })
    });
    own.collect()
}

/// Before a tile: nothing has been combined.
pub(super) fn begin(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let tiles = all(cx)?;
    for own in &tiles {
        each_element(cx, own, |cx, element, exists| {
            cx.build.emit.stmt(kernel::Stmt::Store {
                mem: Mem::Shared(own.buffer),
                offset: element.expr(),
                values: vec![neutral(own).expr()],
                guard: exists.map(Atom::expr),
            });
            Ok(())
        })?;
    }
    if !tiles.is_empty() {
        cx.build.barrier();
    }
    Ok(())
}

/// Combines a value with an element of the CTA's own.
pub(super) fn combine(
    cx: &mut Cx<'_>,
    id: AccessId,
    tile: &PrivateTile,
    (place, value): (Place, KExpr),
    replica: Option<Atom>,
) -> Result<(), LowerError> {
    let access = cx.view.nest.access(id);
    let Some((op, _)) = access.combines.as_ref() else {
        return Err(LowerError::Malformed("a tile of a CTA's own of what is stored plainly".into()));
    };
    let buffer = cx.view.shared_buffer(Content::Output(access.tensor, cx.env.tile.group), 0)?;
    let guard = store::exists(cx, id, (&place.coords, place.guard), None, replica);
    let mut offset = Linear::default();
    for ((dim, index), coord) in tile.dims.iter().zip(&access.index).zip(&place.coords) {
        let at = match dim.before {
            None => coord.clone(),
            Some(before) => within_tile(cx, index).plus(&Linear::constant(before)),
        };
        offset.add_scaled(&at, dim.pitch as i64);
    }
    let (base, constant) = cx.build.emit.index_base(&offset);
    cx.build.emit.stmt(kernel::Stmt::Combine {
        op: *op,
        mem: Mem::Shared(buffer),
        offset: Emit::sum_expr(base, constant, DType::I32),
        values: vec![value],
        guard: guard.map(Atom::expr),
    });
    cx.build.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
    Ok(())
}

/// Behind a tile: what the CTA has is combined with the tensor.
pub(super) fn end(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let tiles = all(cx)?;
    if !tiles.is_empty() {
        cx.build.barrier();
    }
    for own in &tiles {
        each_element(cx, own, |cx, element, exists| send(cx, own, element, exists))?;
    }
    Ok(())
}

/// Combines an element with its tensor's, unless no value came to it. Those outside of the tensor get none.
fn send(cx: &mut Cx<'_>, own: &Own<'_>, element: Atom, exists: Option<Atom>) -> Result<(), LowerError> {
    let dst = cx.build.emit.var(own.dtype);
    let guard = exists.map(Atom::expr);
    let (mem, offset) = (Mem::Shared(own.buffer), element.expr());
    cx.build.emit.stmt(kernel::Stmt::Load { dst: vec![dst], mem, offset, guard });
    let came = cx.build.emit.cmp(CmpOp::Ne, Atom::Var(dst), neutral(own));
    let guard = cx.build.emit.and(exists, Some(came));
    let index = &cx.view.nest.access(own.access).index;
    let mut place = Offset::default();
    let pitches = memory::pitches(cx, own.tensor);
    for ((dim, index), pitch) in own.tile.dims.iter().zip(index).zip(pitches) {
        let along = cx.build.emit.bin(BinOp::Div, element, Atom::i32(dim.pitch as i64));
        let along = match dim.pitch * dim.extent < own.tile.elems {
            true => cx.build.emit.bin(BinOp::Rem, along, Atom::i32(dim.extent as i64)),
            false => along,
        };
        let mut at = linear(along, 0);
        if let Some(before) = dim.before {
            at = at.plus(&corner(cx, index)).plus(&Linear::constant(index.constant - before));
        }
        place.add(pitch, &at);
    }
    let ty = cx.view.offset_ty(own.tensor);
    let (base, constant) = cx.build.emit.offset(&place, ty);
    memory::write_global(cx, own.access);
    cx.build.emit.stmt(kernel::Stmt::Combine {
        op: own.op,
        mem: cx.view.global(own.tensor),
        offset: Emit::sum_expr(base, constant, ty),
        values: vec![KExpr::Var(dst)],
        guard: guard.map(Atom::expr),
    });
    Ok(())
}

/// Runs `body` for each element of a tile: by which thread, its place alone says. The last step may not need every thread.
fn each_element<'a>(
    cx: &mut Cx<'a>,
    own: &Own<'_>,
    body: impl Fn(&mut Cx<'a>, Atom, Option<Atom>) -> Result<(), LowerError>,
) -> Result<(), LowerError> {
    let elems = own.tile.elems as i64;
    let threads = i64::from(cx.env.tile.units.threads);
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let exists = |cx: &mut Cx<'a>, element: Atom| {
        let ragged = elems % threads != 0;
        ragged.then(|| cx.build.emit.cmp(CmpOp::Lt, element, Atom::i32(elems)))
    };
    if elems <= threads {
        let exists = exists(cx, tid);
        return body(cx, tid, exists);
    }
    cx.build.emit.push();
    let var = cx.build.emit.var(DType::I32);
    let element = cx.build.emit.add(Atom::Var(var), tid);
    let exists = exists(cx, element);
    body(cx, element, exists)?;
    let body = cx.build.emit.pop();
    let [start, end, step] = [0, elems, threads].map(|n| KExpr::Int(n, DType::I32));
    cx.build.emit.stmt(kernel::Stmt::For { var, start, end, step, body });
    cx.build.emit.forget_loads(|_| true);
    Ok(())
}

/// What an element is before any value comes.
fn neutral(own: &Own<'_>) -> Atom {
    literal(own.op.neutral().into(), own.dtype)
}

/// What the loops inside of a tile add to an index.
fn within_tile(cx: &Cx<'_>, index: &Affine) -> Linear {
    let mut at = Linear::default();
    let inside = cx.env.stack.iter().filter(|bound| !matches!(bound.at, LoopKind::Unit(Unit::Block, _)));
    inside.for_each(|bound| at.add_scaled(&bound.value, index.coefficient(bound.digit.axis)));
    at
}

/// What the digits of the grid add to an index.
fn corner(cx: &Cx<'_>, index: &Affine) -> Linear {
    let mut at = Linear::default();
    let grid = &cx.env.tile.grid.values;
    grid.iter().for_each(|(digit, value)| at.add_scaled(value, index.coefficient(digit.axis)));
    at
}
