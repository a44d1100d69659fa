//! How a box lies in shared memory, as offsets: weights of its dimensions, panels, and the swizzle.

use super::{
    emit::{Atom, Emit, Op, linear},
    linear::Linear,
};
use crate::{
    dtype::DType,
    nest::{CopyLayout, SWIZZLE_LINE},
    op::BinOp,
};

/// Type of offsets in shared memory.
pub(super) const SHARED_OFFSET: DType = DType::I32;

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
        // Whole stages stay where they are, whole rows become rows of a panel. A rest with negative terms keeps its constant
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
            moved.add_scaled(&linear(atom, 0), weight);
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
        match (emit.op(Op::Bin(BinOp::Xor), &[at, mask]), varying) {
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

/// A layout of the nest as offsets.
pub(super) fn layout_of(from: &CopyLayout, dtype: DType, swizzle: u32, depth: u32) -> Layout {
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
        elems: from.stage(depth, size) as i64,
        swizzle,
    }
}
