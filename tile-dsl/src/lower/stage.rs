//! Staged copies: how the box of each lies in shared memory as offsets, and by which instruction a variant moves it.

use super::{
    Lowerer,
    copy::CopyPlan,
    emit::{Atom, Emit, Op},
    error::LowerError,
    guard::Sides,
    linear::Linear,
    pipeline::Flow,
};
use crate::{
    dtype::DType,
    kernel::Ty,
    nest::{CopyId, CopyLayout, Digit, SWIZZLE_LINE, Stmt, TileSize, chain},
    op::BinOp,
    plan::{CopyBox, Producer},
    schedule::Via,
    shared::Content,
    tile::TensorId,
};

/// A stage around the current point.
#[derive(Clone, Debug)]
pub(super) struct Active<'p> {
    /// What the copy holds.
    pub of: &'p CopyBox,
    pub tensor: TensorId,
    pub buffer: u32,
    /// Digits bound outside of it.
    pub height: usize,
    pub layout: Layout,
    /// Offset of the ring slot to read.
    pub slot: Linear,
}

/// Layout of a copy in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Weight of each tensor dimension, in elements.
    pub pitch: Vec<i64>,
    /// The contiguous dimension.
    pub fastest: usize,
    /// Elements of one copy, padding included.
    pub elems: i64,
    panels: Option<Panels>,
    swizzle: Option<Swizzle>,
}

/// Rows in pieces as wide as the span of the swizzle, all rows of a piece together.
#[derive(Clone, Copy, Debug)]
struct Panels {
    /// Elements of a row.
    row: i64,
    /// Elements of a piece of a row.
    width: i64,
    /// Elements of all rows of a piece.
    stride: i64,
}

/// XOR swizzle: chunk number within a row of `chunks` is xored with the number of the 128-byte line
/// (PTX ISA 5.5.7, swizzling modes).
#[derive(Clone, Copy, Debug)]
struct Swizzle {
    /// Elements in 16 bytes.
    chunk: i64,
    /// Elements in 128 bytes.
    line: i64,
    /// Chunks in the span: 2, 4 or 8.
    chunks: i64,
}

/// Whether no variable part of an offset is negative.
fn rises(offset: &Linear) -> bool {
    offset.terms.values().all(|factor| *factor > 0)
}

impl Layout {
    /// Where an offset lies that counts whole rows, before the swizzle.
    pub fn start(&self, emit: &mut Emit, offset: &Linear) -> Linear {
        let Some(Panels { row, width, stride }) = self.panels else { return offset.clone() };
        let (mut inside, mut moved) = (Linear::default(), Linear::default());
        for (var, factor) in &offset.terms {
            let term = Linear::var(*var).scaled(*factor);
            if emit.is_multiple(&term, self.elems) {
                moved.add_scaled(&term, 1);
            } else if emit.is_multiple(&term, row) && (factor * width) % row == 0 {
                moved.add_scaled(&Linear::var(*var), factor * width / row);
            } else {
                inside.add_scaled(&term, 1);
            }
        }
        // Whole slots stay where they are, whole rows become rows of a panel. A rest with negative terms keeps its constant
        // rows: its sum, which is divided, is then not negative.
        let here = offset.constant.rem_euclid(self.elems);
        let rows = if rises(&inside) { here / row } else { 0 };
        inside.constant = here - rows * row;
        moved.constant += offset.constant - here + rows * width;
        let at = emit.index(&inside);
        let part = |emit: &mut Emit, op: BinOp, of: Atom, by: i64| emit.bin(op, of, Atom::i32(by));
        let y = part(emit, BinOp::Div, at, row);
        let x = part(emit, BinOp::Rem, at, row);
        let piece = part(emit, BinOp::Div, x, width);
        let rest = part(emit, BinOp::Rem, x, width);
        for (atom, weight) in [(piece, stride), (y, width), (rest, 1)] {
            moved.add_scaled(&super::copy::linear(atom, 0), weight);
        }
        moved
    }

    /// Variable and constant part of an offset that counts whole rows.
    pub fn place(&self, emit: &mut Emit, offset: &Linear) -> (Option<Atom>, i64) {
        let offset = &self.start(emit, offset);
        let Some(s) = self.swizzle else { return emit.index_base(offset) };
        // The pattern repeats: what is a multiple of its period moves past the swizzle, and loops share the rest.
        let period = s.line * s.chunks;
        let (mut inside, mut outside) = (Linear::default(), Linear::default());
        // Without negative terms, the parts may be divided apart; with them, only the sum is sure not to be negative.
        let rising = rises(offset);
        for (var, factor) in &offset.terms {
            let term = Linear::var(*var).scaled(*factor);
            if rising && emit.is_multiple(&term, period) { &mut outside } else { &mut inside }
                .add_scaled(&term, 1);
        }
        inside.constant = if rising { offset.constant.rem_euclid(period) } else { offset.constant };
        outside.constant = offset.constant - inside.constant;
        let at = emit.index(&inside);
        let line = emit.bin(BinOp::Div, at, Atom::i32(s.line));
        let phase = emit.bin(BinOp::Rem, line, Atom::i32(s.chunks));
        let mask = emit.bin(BinOp::Mul, phase, Atom::i32(s.chunk));
        let (varying, constant) = emit.index_base(&outside);
        match (emit.op(Op::Xor, &[at, mask]), varying) {
            (Atom::Int(n, _), varying) => (varying, n + constant),
            (swizzled, None) => (Some(swizzled), constant),
            (swizzled, Some(varying)) => (Some(emit.add(varying, swizzled)), constant),
        }
    }

    /// Whether vectors of `n` elements along the contiguous dimension stay aligned.
    pub fn keeps_aligned(&self, n: i64) -> bool {
        self.pitch.iter().enumerate().all(|(d, p)| d == self.fastest || p % n == 0)
    }
}

impl Active<'_> {
    /// Variable and constant part of an offset into the slot that is read.
    pub fn place(&self, emit: &mut Emit, offset: &Linear) -> (Option<Atom>, i64) {
        self.layout.place(emit, &offset.clone().plus(&self.slot))
    }

    /// The same before the swizzle: where a descriptor starts.
    pub fn start(&self, emit: &mut Emit, offset: &Linear) -> (Option<Atom>, i64) {
        let at = self.layout.start(emit, &offset.clone().plus(&self.slot));
        emit.index_base(&at)
    }
}

impl<'a> Lowerer<'a> {
    /// Stages outside of a pipeline: channels of one item.
    pub fn stage(&mut self, stmt: &Stmt) -> Result<(), LowerError> {
        let (copies, body) = chain(stmt);
        let channels = self.plan.channels.get(None, &copies).iter();
        let (held, shared): (Vec<_>, Vec<_>) = channels.partition(|c| c.producer == Producer::Each);
        let flows: Vec<Flow<'a>> =
            shared.into_iter().map(|channel| self.open(channel, body)).collect::<Result<_, _>>()?;
        for flow in &flows {
            self.fill_once(flow);
        }
        // What completes on its own has the longest time.
        for flow in flows.iter().rev() {
            let position = self.await_slot(flow, body);
            if let (Some(channel), Some(position)) = (&flow.mbarriers, position) {
                self.advance(channel, position);
            }
        }
        let outside = self.stages.len();
        let copies = flows.iter().flat_map(|flow| &flow.copies);
        self.stages.extend(copies.map(|p| p.active(Linear::default())));
        match held.first() {
            Some(channel) => self.hold_fragments(&channel.copies, body)?,
            None => self.stmt(body)?,
        }
        self.stages.truncate(outside);
        for flow in flows.iter().filter(|flow| flow.mbarriers.is_some()) {
            self.fence_reads(&flow.copies, body);
        }
        Ok(())
    }

    /// Where a copy goes and what it takes, at the current point; `depth` copies fit in its buffer.
    pub fn plan(&mut self, copy: CopyId, body: &Stmt, depth: u32) -> Result<CopyPlan<'a>, LowerError> {
        let c = self.nest.copy(copy);
        let name = || self.nest.copy_name(copy);
        let planned = self.plan;
        let Some(of) = planned.boxes.get(self.nest, copy, body) else {
            return Err(LowerError::Malformed(format!("no box of `{}` is planned here", name())));
        };
        let dtype = self.nest.elem(c.tensor);
        let outer = self.digits();
        let sides = |dim| {
            let reads = of.reads.iter().map(|(access, inner)| {
                let digits: Vec<Digit> = outer.iter().chain(inner).copied().collect();
                self.sides(c.tensor, dim, &self.nest.access(*access).index[dim], &digits)
            });
            reads.fold(Sides::default(), Sides::or)
        };
        let layout = self.layout_of(&of.layout, dtype, c.swizzle, depth);
        let elems = layout.elems.checked_mul(depth.into()).filter(|n| u32::try_from(*n).is_ok());
        let Some(elems) = elems else {
            return Err(LowerError::Malformed(format!(
                "a copy of `{}` has {} elements",
                name(),
                layout.elems
            )));
        };
        let buffer = self.shared_buffer(Content::Copy(copy), elems as u64)?;
        let size = if self.last.is_some() { TileSize::Last } else { TileSize::Whole };
        let mut plan = CopyPlan {
            of,
            size,
            tensor: c.tensor,
            dtype,
            buffer,
            height: self.stack.len(),
            layout,
            extent: of.extents(size).iter().map(|points| *points as i64).collect(),
            sides: (0..of.low.len()).map(sides).collect(),
            vector: 1,
            asynchronous: false,
            map: None,
        };
        self.choose_move(&mut plan, c.via, c.vector)?;
        if c.via == Via::Tma {
            plan.map = Some(self.tensor_map(&plan));
        }
        Ok(plan)
    }

    /// A layout of the nest as offsets.
    pub fn layout_of(&self, from: &CopyLayout, dtype: DType, swizzle: u32, depth: u32) -> Layout {
        let size = u64::from(dtype.bytes());
        let elem = size as i64;
        let line = SWIZZLE_LINE as i64;
        let swizzle = (swizzle > 0).then(|| Swizzle {
            chunk: 16 / elem,
            line: line / elem,
            chunks: i64::from(swizzle) / 16,
        });
        let panels = from.panel.map(|width| Panels {
            row: from.row as i64,
            width: width as i64,
            stride: (from.rows() * width) as i64,
        });
        Layout {
            panels,
            pitch: from.strides.iter().map(|s| *s as i64).collect(),
            fastest: from.contiguous,
            elems: from.slot(depth, size) as i64,
            swizzle,
        }
    }

    /// Vector width and instruction of a copy, in this variant.
    fn choose_move(&self, plan: &mut CopyPlan<'_>, via: Via, vector: Option<u32>) -> Result<(), LowerError> {
        let name = &self.tensor(plan.tensor).name;
        let elem = plan.dtype.bytes();
        let fastest = self.contiguous(plan.tensor);
        let vectors = self.variant != crate::program::Variant::General;
        if let Some(bytes) = vector.filter(|b| vectors && *b > elem) {
            let n = bytes / elem;
            let row = plan.extent.get(fastest).copied().unwrap_or(1);
            let starts = self.base(plan);
            let aligned = starts.get(fastest).is_none_or(|b| self.emit.is_multiple(b, n.into()));
            if bytes > 16 || !bytes.is_power_of_two() || row % i64::from(n) != 0 || !aligned {
                return Err(LowerError::Malformed(format!(
                    "the copy of `{name}` moves {bytes} bytes at once, its rows have {row} elements{}",
                    if aligned { "" } else { " and start between" }
                )));
            }
            plan.vector = n;
        }
        plan.asynchronous = self.nest.is_asynchronous(plan.of.copy, vectors);
        if via == Via::CpAsync && vectors && !plan.asynchronous {
            let bytes = plan.vector * elem;
            return Err(LowerError::Malformed(format!("cp.async of `{name}` moves {bytes} bytes at once")));
        }
        let contiguous = plan.vector == 1
            || (plan.layout.fastest == fastest && plan.layout.keeps_aligned(plan.vector.into()));
        if plan.asynchronous && !contiguous {
            return Err(LowerError::Malformed(format!(
                "cp.async of `{name}` moves {} elements that do not lie side by side in its copy",
                plan.vector
            )));
        }
        Ok(())
    }

    /// First element of the box, by dimension, from the digits bound outside.
    pub fn base(&self, plan: &CopyPlan<'_>) -> Vec<Linear> {
        let index = &self.nest.access(plan.of.reads[0].0).index;
        let base = index.iter().zip(&plan.of.low).map(|(index, low)| {
            let mut at = self.index_from(index, 0);
            at.constant += low;
            at
        });
        base.collect()
    }
}

impl<'p> CopyPlan<'p> {
    /// The stage that reads this copy.
    pub fn active(&self, slot: Linear) -> Active<'p> {
        Active {
            of: self.of,
            tensor: self.tensor,
            buffer: self.buffer,
            height: self.height,
            layout: self.layout.clone(),
            slot,
        }
    }
}

/// Type of offsets in shared memory.
pub(super) const SHARED_OFFSET: Ty = Ty::I32;
