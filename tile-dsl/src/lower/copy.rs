//! The thread map of a copy: consecutive threads take consecutive vectors of the box, the dimension that is
//! contiguous in global memory fastest, in as many unrolled rounds as it takes.
//!
//! Where rounds divide a row, they run along it before they go to the next rows: a thread's vectors are then a
//! constant distance apart, so one address serves them all. A row is not divided into pieces below a line of the caches.

use super::{
    context::Cx,
    emit::{Atom, Emit, Op, linear},
    error::LowerError,
    flow::CopyPlan,
    guard::{self, Within},
    layout::SHARED_OFFSET,
    linear::{Linear, Offset},
    looked_up, memory, moves,
};
use crate::{
    kernel::{self, Expr as KExpr, Mem, Var},
    op::{BinOp, CmpOp, UnOp},
};

/// Elements a thread has in flight between loads and stores of plain copies; no less than a vector has.
const IN_FLIGHT: u32 = 32;

/// Bytes of a line of the caches: a piece of a row is no shorter, or requests would touch more lines.
const LINE: i64 = 128;

/// What a thread moves in one round.
pub(super) struct Chunk {
    /// Coordinates in the box.
    coords: Vec<Linear>,
    /// The chunk exists: the last round may not need every thread.
    exists: Option<Atom>,
}

/// The rounds of a copy.
pub(super) fn chunks(cx: &mut Cx<'_>, plan: &CopyPlan<'_>) -> Vec<Chunk> {
    let fastest = cx.view.nest.contiguous(plan.tensor);
    // Dimensions from the fastest in global memory, in chunks.
    let mut dims: Vec<usize> = (0..plan.extent.len()).rev().collect();
    if fastest == 0 {
        dims.reverse();
    }
    let counts: Vec<i64> = dims
        .iter()
        .map(|d| if *d == fastest { plan.extent[*d] / i64::from(plan.vector) } else { plan.extent[*d] })
        .collect();
    let total: i64 = counts.iter().product();
    let threads = i64::from(cx.env.tile.units.threads);
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let mut chunks = Vec::new();
    let pieces = pieces(plan, counts[0], total, threads);
    for round in 0..(total + threads - 1) / threads {
        if pieces > 1 {
            let coords = piece(cx, plan, &dims, &counts, (round, pieces));
            chunks.push(Chunk { coords, exists: None });
            continue;
        }
        let first = round * threads;
        let last_round = first + threads > total;
        let exists = last_round.then(|| cx.build.emit.cmp(CmpOp::Lt, tid, Atom::i32(total - first)));
        let mut coords = vec![Linear::default(); plan.extent.len()];
        let (mut varying, mut constant) = (if threads == 1 { Atom::i32(0) } else { tid }, first);
        for (n, (dim, count)) in dims.iter().zip(&counts).enumerate() {
            let outermost = counts[n + 1..].iter().all(|c| *c == 1);
            let step = if *dim == fastest { i64::from(plan.vector) } else { 1 };
            if outermost {
                coords[*dim] = linear(varying, constant).scaled(step);
                break;
            }
            if constant % count != 0 {
                varying = cx.build.emit.add(varying, Atom::i32(constant));
                constant = 0;
            }
            let digit = cx.build.emit.bin(BinOp::Rem, varying, Atom::i32(*count));
            coords[*dim] = linear(digit, 0).scaled(step);
            varying = cx.build.emit.bin(BinOp::Div, varying, Atom::i32(*count));
            constant /= count;
        }
        chunks.push(Chunk { coords, exists });
    }
    chunks
}

/// Coordinates of a thread's vector in a round, where rounds take one of `pieces` of a row after the other.
fn piece(
    cx: &mut Cx<'_>,
    plan: &CopyPlan<'_>,
    dims: &[usize],
    counts: &[i64],
    (round, pieces): (i64, i64),
) -> Vec<Linear> {
    let width = counts[0] / pieces;
    let tid = cx.env.tile.units.tid(&mut cx.build.emit);
    let mut coords = vec![Linear::default(); plan.extent.len()];
    let column = cx.build.emit.bin(BinOp::Rem, tid, Atom::i32(width));
    coords[dims[0]] = linear(column, round % pieces * width).scaled(plan.vector.into());
    let mut varying = cx.build.emit.bin(BinOp::Div, tid, Atom::i32(width));
    let mut constant = round / pieces * (i64::from(cx.env.tile.units.threads) / width);
    for (n, (dim, count)) in dims.iter().zip(counts).enumerate().skip(1) {
        if counts[n + 1..].iter().all(|c| *c == 1) {
            coords[*dim] = linear(varying, constant);
            break;
        }
        if constant % count != 0 {
            varying = cx.build.emit.add(varying, Atom::i32(constant));
            constant = 0;
        }
        let digit = cx.build.emit.bin(BinOp::Rem, varying, Atom::i32(*count));
        coords[*dim] = linear(digit, 0);
        varying = cx.build.emit.bin(BinOp::Div, varying, Atom::i32(*count));
        constant /= count;
    }
    coords
}

/// Offset and guard of a chunk in global memory.
fn source(
    cx: &mut Cx<'_>,
    plan: &CopyPlan<'_>,
    base: &[Linear],
    chunk: &Chunk,
) -> Result<(KExpr, Option<Atom>), LowerError> {
    let pitches = memory::pitches(cx, plan.tensor);
    let mut offset = Offset::default();
    let (mut within, mut named) = (Vec::new(), None);
    for (d, coord) in chunk.coords.iter().enumerate() {
        let at = base[d].clone().plus(coord);
        match plan.of.gathered.get(&d) {
            None => offset.add(pitches[d], &at),
            Some(gathered) => {
                let row = gathered_row(cx, plan, d, chunk);
                let (place, guard) = looked_up::looked_up(cx, (plan.tensor, d), gathered, &at, row)?;
                offset.add(pitches[d], &place);
                named = cx.build.emit.and(named, Some(guard));
            }
        }
        if let Some(extent) = moves::extent(cx, plan.of, plan.tensor, d) {
            within.push(Within { at, extent: extent.clone(), sides: plan.sides[d] });
        }
    }
    let guard = guard::inside(cx, &within);
    let guard = cx.build.emit.and(guard, named);
    let ty = cx.view.offset_ty(plan.tensor);
    let (base, constant) = cx.build.emit.offset(&offset, ty);
    Ok((Emit::sum_expr(base, constant, ty), guard))
}

/// The row that values along a dimension are looked up for, counted from where the copy begins, and how many rows it has.
fn gathered_row(cx: &mut Cx<'_>, plan: &CopyPlan<'_>, dim: usize, chunk: &Chunk) -> (Linear, u32) {
    let Some(counts) = cx.view.nest.access(plan.of.reads[0].0).row_of(dim) else {
        return (Linear::default(), 1);
    };
    let mut row = chunk.coords[counts].clone();
    row.constant += plan.of.low[counts];
    // What threads without a part of the last round look up is the first one.
    if let Some(exists) = chunk.exists {
        let at = cx.build.emit.index(&row);
        let first = Atom::i32(plan.of.low[counts]);
        row = linear(cx.build.emit.op(Op::Select, &[exists, at, first]), 0);
    }
    (row, plan.of.layout.extents[counts] as u32)
}

fn target(cx: &mut Cx<'_>, plan: &CopyPlan<'_>, chunk: &Chunk, lane: u32, stage: &Linear) -> KExpr {
    let mut offset = stage.clone();
    for (coord, pitch) in chunk.coords.iter().zip(&plan.layout.pitch) {
        offset.add_scaled(coord, *pitch);
    }
    offset.constant +=
        i64::from(lane) * plan.layout.pitch.get(cx.view.nest.contiguous(plan.tensor)).unwrap_or(&1);
    let (base, constant) = plan.layout.place(&mut cx.build.emit, &offset);
    Emit::sum_expr(base, constant, SHARED_OFFSET)
}

/// Copies boxes, at the current point, each into its stage: asynchronous ones are issued, plain ones are
/// complete. Plain loads come in batches before their stores, so that they overlap.
pub(super) fn copy_all(cx: &mut Cx<'_>, plans: &[(&CopyPlan<'_>, Linear)]) -> Result<(), LowerError> {
    let mut plain = Vec::new();
    for (plan, stage) in plans {
        let chunks = chunks(cx, plan);
        if plan.asynchronous {
            issue(cx, plan, &chunks, stage)?;
        } else {
            plain.extend(chunks.into_iter().map(|chunk| (*plan, stage, chunk)));
        }
    }
    let mut rest = plain.as_slice();
    while !rest.is_empty() {
        let mut elems = 0;
        let mut fits = |plan: &CopyPlan<'_>| {
            elems += plan.vector;
            elems <= IN_FLIGHT
        };
        let count = rest.iter().take_while(|(plan, ..)| fits(plan)).count();
        let (batch, later) = rest.split_at(count);
        let loaded = batch.iter().map(|(plan, _, chunk)| load_chunk(cx, plan, chunk));
        let loaded = loaded.collect::<Result<Vec<_>, _>>()?;
        for ((plan, stage, chunk), values) in batch.iter().zip(loaded) {
            let values = values.into_iter().map(KExpr::Var).collect();
            store_chunk(cx, plan, chunk, values, stage);
        }
        rest = later;
    }
    Ok(())
}

/// Issues the asynchronous copies of a box.
pub(super) fn issue(
    cx: &mut Cx<'_>,
    plan: &CopyPlan<'_>,
    chunks: &[Chunk],
    stage: &Linear,
) -> Result<(), LowerError> {
    let base = moves::base(cx, plan);
    for chunk in chunks {
        let (global_offset, guard) = source(cx, plan, &base, chunk)?;
        let shared_offset = target(cx, plan, chunk, 0, stage);
        let copy = kernel::Stmt::CopyAsync {
            shared: plan.buffer,
            shared_offset,
            global: plan.tensor.0.into(),
            global_offset,
            elems: plan.vector,
            guard: guard.map(Atom::expr),
        };
        match chunk.exists {
            None => cx.build.emit.stmt(copy),
            Some(exists) => {
                cx.build.emit.stmt(kernel::Stmt::If {
                    cond: exists.expr(),
                    then: vec![copy],
                    otherwise: vec![],
                });
            }
        }
    }
    Ok(())
}

/// Loads a chunk to registers.
pub(super) fn load_chunk(
    cx: &mut Cx<'_>,
    plan: &CopyPlan<'_>,
    chunk: &Chunk,
) -> Result<Vec<Var>, LowerError> {
    let base = moves::base(cx, plan);
    let (offset, guard) = source(cx, plan, &base, chunk)?;
    let guard = cx.build.emit.and(chunk.exists, guard);
    let dst: Vec<Var> = (0..plan.vector).map(|_| cx.build.emit.var(plan.dtype)).collect();
    let mem = cx.view.global(plan.tensor);
    cx.build.emit.stmt(kernel::Stmt::Load { dst: dst.clone(), mem, offset, guard: guard.map(Atom::expr) });
    Ok(dst)
}

/// Stores a chunk to shared memory: as a vector where the layout keeps it together.
pub(super) fn store_chunk(
    cx: &mut Cx<'_>,
    plan: &CopyPlan<'_>,
    chunk: &Chunk,
    values: Vec<KExpr>,
    stage: &Linear,
) {
    let mem = Mem::Shared(plan.buffer);
    let values: Vec<KExpr> = match plan.of.rounded {
        true => values.into_iter().map(|x| KExpr::Un(UnOp::Tf32, Box::new(x))).collect(),
        false => values,
    };
    let guard = chunk.exists.map(Atom::expr);
    let together = plan.layout.fastest == cx.view.nest.contiguous(plan.tensor)
        && plan.layout.keeps_aligned(plan.vector.into());
    if together {
        let offset = target(cx, plan, chunk, 0, stage);
        cx.build.emit.stmt(kernel::Stmt::Store { mem, offset, values, guard });
        return;
    }
    for (lane, value) in (0..).zip(values) {
        let offset = target(cx, plan, chunk, lane, stage);
        cx.build.emit.stmt(kernel::Stmt::Store { mem, offset, values: vec![value], guard: guard.clone() });
    }
}

/// Into how many pieces rounds divide a row of `count` vectors.
fn pieces(plan: &CopyPlan<'_>, count: i64, total: i64, threads: i64) -> i64 {
    let bytes = i64::from(plan.vector * plan.dtype.bytes());
    let fits = |pieces: &i64| {
        let width = count / pieces;
        count % pieces == 0
            && (total / threads) % pieces == 0
            && width * bytes >= LINE
            && threads % width == 0
    };
    if total % threads != 0 || threads == 1 || plan.extent.len() < 2 {
        return 1;
    }
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Offset of a stage of a copy.
pub(super) fn stage_at(cx: &mut Cx<'_>, plan: &CopyPlan<'_>, stage: Atom) -> Linear {
    let offset = cx.build.emit.bin(BinOp::Mul, stage, Atom::i32(plan.layout.elems));
    linear(cx.build.emit.multiple(offset, plan.layout.elems), 0)
}
