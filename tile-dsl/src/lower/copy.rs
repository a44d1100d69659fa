//! The thread map of a copy: consecutive threads take consecutive vectors of the box, the dimension that is
//! contiguous in global memory fastest, in as many unrolled rounds as it takes.
//!
//! Where rounds divide a row, they run along it before they go to the next rows: a thread's vectors are then a
//! constant distance apart, so one address serves them all. A row is not divided into pieces below a line of the caches.

use super::{
    Lowerer,
    emit::{Atom, Emit},
    guard::{Sides, Within},
    linear::{Linear, Offset},
    stage::{Layout, SHARED_OFFSET},
};
use crate::{
    dtype::DType,
    kernel::{self, Expr as KExpr, Mem, Ty, Var},
    nest::TileSize,
    op::{BinOp, CmpOp, UnOp},
    plan::CopyBox,
    tile::TensorId,
};

/// Elements a thread has in flight between loads and stores of plain copies; no less than a vector has.
const IN_FLIGHT: u32 = 32;

/// Bytes of a line of the caches: a piece of a row is no shorter, or requests would touch more lines.
const LINE: i64 = 128;

/// A copy of a box of a tensor into shared memory.
pub(super) struct CopyPlan<'p> {
    /// What it holds.
    pub of: &'p CopyBox,
    /// Of the tile at hand.
    pub size: TileSize,
    pub tensor: TensorId,
    pub dtype: DType,
    pub buffer: u32,
    /// Digits bound outside of the stage.
    pub height: usize,
    pub layout: Layout,
    /// Extent of the box that the tile at hand takes, by dimension.
    pub extent: Vec<i64>,
    /// Where the box may leave the tensor, by dimension.
    pub sides: Vec<Sides>,
    /// Elements moved at once.
    pub vector: u32,
    pub asynchronous: bool,
    /// The tensor map through which it comes in one piece: a parameter of the kernel.
    pub map: Option<u32>,
}

/// What a thread moves in one round.
pub(super) struct Chunk {
    /// Coordinates in the box.
    coords: Vec<Linear>,
    /// The chunk exists: the last round may not need every thread.
    exists: Option<Atom>,
}

impl Lowerer<'_> {
    /// The rounds of a copy.
    pub fn chunks(&mut self, plan: &CopyPlan<'_>) -> Vec<Chunk> {
        let fastest = self.contiguous(plan.tensor);
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
        let threads = i64::from(self.units.threads);
        let tid = self.units.tid(&mut self.emit);
        let mut chunks = Vec::new();
        let pieces = pieces(plan, counts[0], total, threads);
        for round in 0..(total + threads - 1) / threads {
            if pieces > 1 {
                let coords = self.piece(plan, &dims, &counts, (round, pieces));
                chunks.push(Chunk { coords, exists: None });
                continue;
            }
            let first = round * threads;
            let last_round = first + threads > total;
            let exists = last_round.then(|| self.emit.cmp(CmpOp::Lt, tid, Atom::i32(total - first)));
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
                    varying = self.emit.add(varying, Atom::i32(constant));
                    constant = 0;
                }
                let digit = self.emit.bin(BinOp::Rem, varying, Atom::i32(*count));
                coords[*dim] = linear(digit, 0).scaled(step);
                varying = self.emit.bin(BinOp::Div, varying, Atom::i32(*count));
                constant /= count;
            }
            chunks.push(Chunk { coords, exists });
        }
        chunks
    }

    /// Coordinates of a thread's vector in a round, where rounds take one of `pieces` of a row after the other.
    fn piece(
        &mut self,
        plan: &CopyPlan<'_>,
        dims: &[usize],
        counts: &[i64],
        (round, pieces): (i64, i64),
    ) -> Vec<Linear> {
        let width = counts[0] / pieces;
        let tid = self.units.tid(&mut self.emit);
        let mut coords = vec![Linear::default(); plan.extent.len()];
        let column = self.emit.bin(BinOp::Rem, tid, Atom::i32(width));
        coords[dims[0]] = linear(column, round % pieces * width).scaled(plan.vector.into());
        let mut varying = self.emit.bin(BinOp::Div, tid, Atom::i32(width));
        let mut constant = round / pieces * (i64::from(self.units.threads) / width);
        for (n, (dim, count)) in dims.iter().zip(counts).enumerate().skip(1) {
            if counts[n + 1..].iter().all(|c| *c == 1) {
                coords[*dim] = linear(varying, constant);
                break;
            }
            if constant % count != 0 {
                varying = self.emit.add(varying, Atom::i32(constant));
                constant = 0;
            }
            let digit = self.emit.bin(BinOp::Rem, varying, Atom::i32(*count));
            coords[*dim] = linear(digit, 0);
            varying = self.emit.bin(BinOp::Div, varying, Atom::i32(*count));
            constant /= count;
        }
        coords
    }

    /// Offset and guard of a chunk in global memory.
    fn source(&mut self, plan: &CopyPlan<'_>, base: &[Linear], chunk: &Chunk) -> (KExpr, Option<Atom>) {
        let pitches = self.pitches(plan.tensor);
        let mut offset = Offset::default();
        let mut within = Vec::new();
        for (d, coord) in chunk.coords.iter().enumerate() {
            let at = base[d].clone().plus(coord);
            offset.add(pitches[d], &at);
            let extent = self.tensor(plan.tensor).dims[d].clone();
            within.push(Within { at, extent, sides: plan.sides[d] });
        }
        let guard = self.inside(&within);
        let ty = self.offset_ty();
        let (base, constant) = self.emit.offset(&offset, ty);
        (Emit::sum_expr(base, constant, ty), guard)
    }

    fn target(&mut self, plan: &CopyPlan<'_>, chunk: &Chunk, lane: u32, slot: &Linear) -> KExpr {
        let mut offset = slot.clone();
        for (coord, pitch) in chunk.coords.iter().zip(&plan.layout.pitch) {
            offset.add_scaled(coord, *pitch);
        }
        offset.constant +=
            i64::from(lane) * plan.layout.pitch.get(self.contiguous(plan.tensor)).unwrap_or(&1);
        let (base, constant) = plan.layout.place(&mut self.emit, &offset);
        Emit::sum_expr(base, constant, SHARED_OFFSET)
    }

    /// Copies boxes, at the current point, each into its slot: asynchronous ones are issued, plain ones are
    /// complete. Plain loads come in batches before their stores, so that they overlap.
    pub fn copy_all(&mut self, plans: &[(&CopyPlan<'_>, Linear)]) {
        let mut plain = Vec::new();
        for (plan, slot) in plans {
            let chunks = self.chunks(plan);
            if plan.asynchronous {
                self.issue(plan, &chunks, slot);
            } else {
                plain.extend(chunks.into_iter().map(|chunk| (*plan, slot, chunk)));
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
            let loaded: Vec<_> = batch.iter().map(|(plan, _, chunk)| self.load_chunk(plan, chunk)).collect();
            for ((plan, slot, chunk), values) in batch.iter().zip(loaded) {
                let values = values.into_iter().map(KExpr::Var).collect();
                self.store_chunk(plan, chunk, values, slot);
            }
            rest = later;
        }
    }

    /// Issues the asynchronous copies of a box.
    pub fn issue(&mut self, plan: &CopyPlan<'_>, chunks: &[Chunk], slot: &Linear) {
        let base = self.base(plan);
        for chunk in chunks {
            let (global_offset, guard) = self.source(plan, &base, chunk);
            let shared_offset = self.target(plan, chunk, 0, slot);
            let copy = kernel::Stmt::CopyAsync {
                shared: plan.buffer,
                shared_offset,
                global: plan.tensor.0.into(),
                global_offset,
                elems: plan.vector,
                guard: guard.map(Atom::expr),
            };
            match chunk.exists {
                None => self.emit.stmt(copy),
                Some(exists) => {
                    self.emit.stmt(kernel::Stmt::If {
                        cond: exists.expr(),
                        then: vec![copy],
                        otherwise: vec![],
                    });
                }
            }
        }
    }

    /// Loads a chunk to registers.
    pub fn load_chunk(&mut self, plan: &CopyPlan<'_>, chunk: &Chunk) -> Vec<Var> {
        let base = self.base(plan);
        let (offset, guard) = self.source(plan, &base, chunk);
        let guard = self.emit.and(chunk.exists, guard);
        let dst: Vec<Var> = (0..plan.vector).map(|_| self.emit.var(Ty::Elem(plan.dtype))).collect();
        let mem = self.global(plan.tensor);
        self.emit.stmt(kernel::Stmt::Load { dst: dst.clone(), mem, offset, guard: guard.map(Atom::expr) });
        dst
    }

    /// Stores a chunk to shared memory: as a vector where the layout keeps it together.
    pub fn store_chunk(&mut self, plan: &CopyPlan<'_>, chunk: &Chunk, values: Vec<KExpr>, slot: &Linear) {
        let mem = Mem::Shared(plan.buffer);
        let values: Vec<KExpr> = match plan.of.rounded {
            true => values.into_iter().map(|x| KExpr::Un(UnOp::Tf32, Box::new(x))).collect(),
            false => values,
        };
        let guard = chunk.exists.map(Atom::expr);
        let together = plan.layout.fastest == self.contiguous(plan.tensor)
            && plan.layout.keeps_aligned(plan.vector.into());
        if together {
            let offset = self.target(plan, chunk, 0, slot);
            self.emit.stmt(kernel::Stmt::Store { mem, offset, values, guard });
            return;
        }
        for (lane, value) in (0..).zip(values) {
            let offset = self.target(plan, chunk, lane, slot);
            self.emit.stmt(kernel::Stmt::Store { mem, offset, values: vec![value], guard: guard.clone() });
        }
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

/// `atom + constant` as an index.
pub(super) fn linear(atom: Atom, constant: i64) -> Linear {
    match atom {
        Atom::Var(var) => Linear::var(var).plus(&Linear::constant(constant)),
        Atom::Int(n, _) => Linear::constant(n + constant),
        Atom::Float(..) | Atom::Bool(_) => unreachable!("an index is an integer"),
    }
}
