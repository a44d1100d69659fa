//! Tiles that are stored: whether lanes hold them as `stmatrix` takes them.
//!
//! ```text
//! row#lane.y 8   along any other dimension      quad#lane.x 4, pair#vec 2   along the contiguous one
//! ```
//! Lane 4·r + q holds elements 2·q and 2·q + 1 of row r of an 8×8 matrix, as accumulators of `mma` and `wgmma` lie.
//! Source: PTX ISA 9.7.15.5.16 (`stmatrix`).

use super::{Access, Digit, LoopKind, MATRIX_ROWS, Nest, Steps};
use crate::schedule::{Unit, UnitDim};

/// The loops that make a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMatrices {
    /// Its rows, one for eight lanes each.
    pub row: Digit,
    /// The four lanes of a row.
    pub quad: Digit,
    /// The two elements of a lane.
    pub pair: Digit,
}

/// Why lanes hold no such matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStoredMatrices {
    /// Elements have so many bytes.
    Size(u32),
    /// No two elements side by side, in four lanes by eight.
    Lanes,
    /// A loop moves the tile by so many elements of a row, no multiple of eight.
    Unaligned(Digit, i64),
}

impl Nest {
    /// How `stmatrix` stores what an access writes inside of these loops, those of the grid left out.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn stored_matrices(
        &self,
        access: &Access,
        inside: &[(Digit, LoopKind)],
    ) -> Result<StoredMatrices, NoStoredMatrices> {
        let bytes = self.elem(access.tensor).bytes();
        if bytes != 2 {
            return Err(NoStoredMatrices::Size(bytes));
        }
        let contiguous = self.contiguous(access.tensor);
        let moves = |d: &Digit, dim: usize| access.index[dim].coefficient(d.axis) * i64::from(d.stride);
        let along = |d: &Digit| moves(d, contiguous);
        let found = |kind: LoopKind, steps: u32, by: i64| {
            let of =
                |(d, k): &&(Digit, LoopKind)| *k == kind && d.steps == Steps::Fixed(steps) && along(d) == by;
            inside.iter().find(of).map(|(d, _)| *d).ok_or(NoStoredMatrices::Lanes)
        };
        let lane = |dim| LoopKind::Unit(Unit::Lane, dim);
        let pair = found(LoopKind::Vec, 2, 1)?;
        let quad = found(lane(UnitDim::X), 4, 2)?;
        let row = found(lane(UnitDim::Y), MATRIX_ROWS as u32, 0)?;
        let own = [pair, quad, row];
        let skewed = own.iter().any(|d| self.skew.contains_key(d));
        if skewed || (0..access.index.len()).all(|dim| moves(&row, dim) == 0) {
            return Err(NoStoredMatrices::Lanes);
        }
        let others = inside.iter().filter(|(d, _)| !own.contains(d) && d.steps != Steps::Fixed(1));
        match others.map(|(d, _)| (*d, along(d))).find(|(_, by)| by % MATRIX_ROWS != 0) {
            Some((digit, by)) => Err(NoStoredMatrices::Unaligned(digit, by)),
            None => Ok(StoredMatrices { row, quad, pair }),
        }
    }
}
