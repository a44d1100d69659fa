//! Operands that lanes read from shared memory: as 8×8 matrices by `ldmatrix`, or element by element.

use super::{AccessId, CopyLayout, Digit, Nest};
use crate::index::AxisId;

/// How an operand is read from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// Elements from one point to the next along m or n.
    pub free: i64,
    /// Elements from one point to the next along k.
    pub k: i64,
    /// Rows run along m or n, not along k: `ldmatrix.trans`.
    pub transposed: bool,
    /// Each lane loads its elements one by one: `ldmatrix` exchanges rows and columns of 16-bit elements alone.
    pub words: bool,
}

/// Rows of a matrix.
pub const MATRIX_ROWS: i64 = 8;
/// Bytes of a row.
pub const MATRIX_ROW_BYTES: i64 = 16;

/// Why an operand cannot be read by `ldmatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMatrices {
    /// Neither dimension's points lie side by side.
    Apart,
    /// Rows do not start at multiples of 16 bytes; elements by which something moves them.
    Unaligned(i64),
}

impl Nest {
    /// How an operand is read from its staged copy. `inside`: the loops inside the copy, those of the atom left out.
    ///
    /// # Errors
    /// Where the 16 bytes of a row, along m, n or k, are no aligned ones.
    pub fn matrices(
        &self,
        access: AccessId,
        layout: &CopyLayout,
        low: &[i64],
        [free, k]: [AxisId; 2],
        inside: &[Digit],
    ) -> Result<Matrices, NoMatrices> {
        let index = &self.access(access).index;
        let step = |axis: AxisId| -> i64 {
            index.iter().zip(&layout.strides).map(|(i, s)| i.coefficient(axis) * *s as i64).sum()
        };
        let (free, k) = (step(free), step(k));
        let bytes = i64::from(self.elem(self.access(access).tensor).bytes());
        let (transposed, other) = match (free, k) {
            (_, 1) => (false, free),
            _ if bytes != 2 => return Ok(Matrices { free, k, transposed: false, words: true }),
            (1, _) => (true, k),
            _ => return Err(NoMatrices::Apart),
        };
        let low: i64 =
            index.iter().zip(low).zip(&layout.strides).map(|((i, l), s)| (i.constant - l) * *s as i64).sum();
        let moves = inside.iter().map(|d| step(d.axis) * i64::from(d.stride)).chain([other, low]);
        match moves.into_iter().find(|m| m * bytes % MATRIX_ROW_BYTES != 0) {
            Some(by) => Err(NoMatrices::Unaligned(by)),
            None => Ok(Matrices { free, k, transposed, words: false }),
        }
    }
}
