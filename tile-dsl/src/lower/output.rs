//! Staged outputs: what a CTA stores of a tensor is collected in shared memory and leaves as boxes of a tensor map.
//!
//! ```text
//! one thread: await stores of the tile before; barrier      // before the first element
//! (put c E)*  →  store shared c[..] = E                     // as often as elements are stored, unguarded
//! proxy_fence; barrier                                       // after the last
//! one thread: tensor c.map[..] <- shared c; commit
//! .. at the end of the kernel: await stores
//! ```
//! Where the directive says `stmatrix`, what lanes hold is put there by matrices, up to four at once; they wait in
//! registers until there are four, or until the tile is sent.
//! The hardware leaves out what lies outside of the tensor. The copy is on its way while the CTA goes on.
//! Source: PTX ISA 9.7.9.27 (`cp.async.bulk.tensor`, shared to global), 9.7.9.25.4 (bulk groups).

use super::{
    build::HeldMatrix,
    context::Cx,
    emit::{Atom, Emit, linear},
    env::Bound,
    error::LowerError,
    expr, guard,
    layout::{self, Layout},
    linear::Linear,
    loads,
    store::{self, StoredPlace},
    tensor_map::{self, MapOf},
};
use crate::{
    dtype::DType,
    kernel::{self, Async, Expr as KExpr, Mem},
    machine::Unit,
    nest::{AccessId, Digit, Expr, LoopKind, MATRIX_ROWS, StoredMatrices, UnitRange, WARP},
    op::BinOp,
    plan::{Collected, StorePath},
    shared::Content,
    tile::TensorId,
};

/// Matrices that one instruction stores at most.
const MOST: usize = 4;

/// Whether a digit moves inside of the tile of a CTA.
fn is_collected(bound: &Bound) -> bool {
    !matches!(bound.at, LoopKind::Unit(Unit::Block, _))
}

/// Puts an element into the collected tile.
pub(super) fn collect(cx: &mut Cx<'_>, id: AccessId, how: &Collected, expr: &Expr) -> Result<(), LowerError> {
    let access = &cx.view.nest.accesses[usize::from(id.0)];
    let (tensor, dtype) = (access.tensor, cx.view.nest.elem(access.tensor));
    let layout = layout::layout_of(&how.layout, dtype, how.swizzle, 1);
    let buffer = cx.view.shared_buffer(Content::Output(tensor, cx.env.tile.group), 0)?;
    let value = expr::value(cx, expr)?.expr();
    if cx.build.unfinished.collected.insert(tensor, id).is_none() {
        cx.build.emit.stmt(kernel::Stmt::One {
            thread: cx.env.tile.units.first,
            body: vec![kernel::Stmt::Async(Async::WaitStores { pending: 0 })],
        });
        cx.build.emit_barrier();
    }
    if let Some(how) = &how.matrices {
        return collect_matrix(cx, id, how, (buffer, &layout), value);
    }
    let mut offset = collected_at(cx, id, &layout);
    let name = cx.view.tensor(tensor).name.clone();
    let step = |digit: Digit| -> i64 {
        let moved = |(d, index): (usize, &crate::index::Affine)| {
            index.coefficient(digit.axis) * i64::from(digit.stride) * layout.pitch[d]
        };
        access.index.iter().enumerate().map(moved).sum()
    };
    let lanes = loads::lanes(cx, 0, step, &name)?;
    if let Some(l) = lanes {
        offset.constant -= i64::from(l.lane);
        loads::check_aligned(cx, &offset, l.steps, dtype, &name)?;
    }
    let (base, constant) = layout.place(&mut cx.build.emit, &offset);
    let guard = guard::replica_guard(cx, &[]);
    let (mem, ty) = (Mem::Shared(buffer), DType::I32);
    let place = StoredPlace { mem, base, constant, ty, guard, combine: None };
    store::store_lanes(cx, &place, value, dtype, lanes);
    Ok(())
}

/// Where an element lies in its tile, before the swizzle: by all digits but those of the grid, in whatever order their
/// loops stand.
fn collected_at(cx: &Cx<'_>, id: AccessId, layout: &Layout) -> Linear {
    let mut offset = Linear::default();
    for (dim, index) in cx.view.nest.access(id).index.iter().enumerate() {
        for bound in cx.env.stack.iter().filter(|b| is_collected(b)) {
            offset.add_scaled(&bound.value, index.coefficient(bound.digit.axis) * layout.pitch[dim]);
        }
    }
    offset
}

/// Keeps an element that a lane holds until its matrix, and three more, are complete.
fn collect_matrix(
    cx: &mut Cx<'_>,
    id: AccessId,
    how: &StoredMatrices,
    (buffer, layout): (u32, &Layout),
    value: KExpr,
) -> Result<(), LowerError> {
    let access = cx.view.nest.access(id);
    let value = cx.build.name(value, cx.view.nest.elem(access.tensor));
    // Each lane has the address of a row of some matrix, not that of what it holds.
    let lane = cx.env.tile.units.part(&mut cx.build.emit, UnitRange { stride: 1, extent: WARP });
    let row = cx.build.emit.bin(BinOp::Rem, lane, Atom::i32(MATRIX_ROWS));
    let own = cx.env.stack.clone();
    let mut pair = 0;
    for bound in &mut cx.env.stack {
        if bound.digit == how.pair {
            pair = bound.fixed().unwrap_or(0) as usize / how.pair.stride as usize;
        }
        if bound.digit == how.rows() {
            bound.value = linear(row, 0).scaled(how.rows().stride.into());
        } else if [how.row, how.quad, how.pair].contains(&bound.digit) {
            bound.value = Linear::default();
        }
    }
    let offset = collected_at(cx, id, layout);
    cx.env.stack = own;
    let held = cx.build.unfinished.matrices.entry(access.tensor).or_default();
    let known = held.iter().position(|m| m.offset == offset && m.values[pair].is_none());
    let at = known.unwrap_or_else(|| {
        held.push(HeldMatrix { offset, values: [None, None], transposed: how.transposed });
        held.len() - 1
    });
    held[at].values[pair] = Some(value);
    if held.len() == MOST && held.iter().all(HeldMatrix::is_complete) {
        store_held(cx, access.tensor, buffer, layout)?;
    }
    Ok(())
}

/// Stores the matrices that wait, as many at once as lie in step.
fn store_held(cx: &mut Cx<'_>, tensor: TensorId, buffer: u32, layout: &Layout) -> Result<(), LowerError> {
    let mut held = cx.build.unfinished.matrices.remove(&tensor).unwrap_or_default();
    while !held.is_empty() {
        let alike = |n: usize| held[..n].iter().all(|m| m.offset.terms == held[0].offset.terms);
        let by = |n: usize| held[n].offset.constant - held[0].offset.constant;
        let count = match held.len() {
            MOST.. if alike(MOST) && by(3) == by(1) + by(2) => MOST,
            2.. if alike(2) => 2,
            _ => 1,
        };
        let steps: Vec<i64> = (0..count.ilog2()).map(|bit| by(1 << bit)).collect();
        let now: Vec<HeldMatrix> = held.drain(..count).collect();
        let transposed = now[0].transposed;
        let mut offset = now[0].offset.clone();
        let lane = cx.env.tile.units.part(&mut cx.build.emit, UnitRange { stride: 1, extent: WARP });
        for (bit, step) in steps.into_iter().enumerate() {
            let digit = cx.build.emit.bin(BinOp::Div, lane, Atom::i32(MATRIX_ROWS << bit));
            let digit = cx.build.emit.bin(BinOp::Rem, digit, Atom::i32(2));
            offset.add_scaled(&linear(digit, 0), step);
        }
        let (base, constant) = layout.place(&mut cx.build.emit, &offset);
        let offset = Emit::sum_expr(base, constant, DType::I32);
        let values: Vec<KExpr> = now.into_iter().flat_map(|m| m.values).flatten().collect();
        if values.len() != 2 * count {
            return Err(LowerError::Malformed("a matrix of which lanes hold one element".into()));
        }
        cx.build.emit.stmt(kernel::Stmt::StoreMatrices { shared: buffer, offset, values, transposed });
    }
    cx.build.emit.forget_loads(|mem| mem == Mem::Shared(buffer));
    Ok(())
}

/// Sends the collected tiles off.
pub(super) fn send_collected(cx: &mut Cx<'_>) -> Result<(), LowerError> {
    let plan = cx.view.plan;
    for (tensor, id) in std::mem::take(&mut cx.build.unfinished.collected) {
        let Some(Ok(StorePath::Collected(how))) = plan.stores.get(id) else { continue };
        let Collected { layout, swizzle, .. } = how;
        let index = &cx.view.nest.access(id).index;
        let buffer = cx.view.shared_buffer(Content::Output(tensor, cx.env.tile.group), 0)?;
        let places = layout::layout_of(layout, cx.view.nest.elem(tensor), *swizzle, 1);
        store_held(cx, tensor, buffer, &places)?;
        let of = MapOf { tensor, layout, extents: &layout.extents, swizzle: *swizzle, stored: true };
        let map = tensor_map::map_of(cx, &of);
        // The corner of the tile: what the digits of the grid contribute.
        let values = cx.env.tile.grid.values.clone();
        let corner = |axis: crate::index::AxisId| {
            let mut at = Linear::default();
            values.iter().filter(|(d, _)| d.axis == axis).for_each(|(_, v)| at.add_scaled(v, 1));
            at
        };
        let mut corners: Vec<Linear> = Vec::new();
        for index in index {
            let mut at = Linear::constant(index.constant);
            index.terms.iter().for_each(|(axis, c)| at.add_scaled(&corner(*axis), *c));
            corners.push(at);
        }
        cx.build.emit.stmt(kernel::Stmt::Async(Async::ProxyFence));
        cx.build.emit_barrier();
        cx.build.emit.push();
        for piece in 0..layout.pieces() {
            let (coordinates, offset) = tensor_map::panel(cx, layout, &corners, &Linear::default(), piece);
            let store = Async::Store { map, shared: buffer, offset, coordinates };
            cx.build.emit.stmt(kernel::Stmt::Async(store));
        }
        cx.build.emit.stmt(kernel::Stmt::Async(Async::CommitStores));
        let body = cx.build.emit.pop();
        cx.build.emit.stmt(kernel::Stmt::One { thread: cx.env.tile.units.first, body });
        cx.build.unfinished.sends = true;
    }
    Ok(())
}

/// Shared memory is the CTA's until its copies have been read from it.
pub(super) fn await_sent(cx: &mut Cx<'_>) {
    if cx.build.unfinished.sends {
        let wait = kernel::Stmt::Async(Async::WaitStores { pending: 0 });
        cx.build.emit.stmt(kernel::Stmt::One { thread: cx.env.tile.units.first, body: vec![wait] });
    }
}

/// What this CTA has sent off is where it belongs: it may be sent there again.
pub(super) fn await_written(cx: &mut Cx<'_>) {
    if cx.build.unfinished.sends {
        let wait = kernel::Stmt::Async(Async::AwaitWritten);
        cx.build.emit.stmt(kernel::Stmt::One { thread: cx.env.tile.units.first, body: vec![wait] });
    }
}
