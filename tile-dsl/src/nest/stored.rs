//! Tiles that are stored: whether lanes hold them as `stmatrix` takes them, and as lanes can exchange them.
//!
//! ```text
//! row#lane.y 8   along any other dimension      quad#lane.x 4, pair#vec 2   along the contiguous one
//! ```
//! Lane 4·r + q holds elements 2·q and 2·q + 1 of row r of an 8×8 matrix, as accumulators of `mma` and `wgmma` lie.
//! Four matrices beside each other, `four#unroll 4·n` along the contiguous dimension, are exchanged: lane 4·r + q then holds
//! the whole of row r of matrix q.
//! Source: PTX ISA 9.7.15.5.16 (`stmatrix`).

use super::{Access, Digit, LoopKind, MATRIX_ROWS, Nest, Steps};
use crate::{
    index::AxisId,
    schedule::{Unit, UnitDim},
};

/// Lanes that hold a row of a matrix.
pub(crate) const LANES_OF_ROW: u32 = 4;

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

/// Why four lanes do not exchange matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoExchange {
    /// Lanes hold none.
    Matrices(NoStoredMatrices),
    /// No expanded loop over four matrices beside each other.
    Fours,
    /// A loop at run time inside of the one over four matrices.
    Between(Digit),
    /// The stored axis has so many points, no multiple of eight.
    Ends(AxisId, i64),
    /// Stored rows start so many elements off.
    Starts(i64),
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

    /// As [`Nest::stored_matrices`], with all loops around the store, those of the grid too, outermost first: the matrices,
    /// and the loop over them, of whose steps four lanes exchange four.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn exchanged_matrices(
        &self,
        access: &Access,
        loops: &[(Digit, LoopKind)],
    ) -> Result<(StoredMatrices, Digit), NoExchange> {
        let matrices = self.stored_matrices(access, loops).map_err(NoExchange::Matrices)?;
        let axis = matrices.pair.axis;
        let four = |(d, at): &(Digit, LoopKind)| {
            let steps = matches!(d.steps, Steps::Fixed(n) if n.is_multiple_of(LANES_OF_ROW));
            d.axis == axis && i64::from(d.stride) == MATRIX_ROWS && steps && at.is_expanded()
        };
        let at = loops.iter().position(four).ok_or(NoExchange::Fours)?;
        if matrices.quad.axis != axis {
            return Err(NoExchange::Matrices(NoStoredMatrices::Lanes));
        }
        let runs = |(d, at): &&(Digit, LoopKind)| {
            matches!(at, LoopKind::Seq | LoopKind::Pipe(_)) && d.steps != Steps::Fixed(1)
        };
        if let Some((digit, _)) = loops[at..].iter().find(runs) {
            return Err(NoExchange::Between(*digit));
        }
        let extent = self.kernel.axes[usize::from(axis.0)].extent.as_constant();
        if let Some(points) = extent.filter(|n| n % MATRIX_ROWS != 0) {
            return Err(NoExchange::Ends(axis, points));
        }
        match access.index[self.contiguous(access.tensor)].constant % MATRIX_ROWS {
            0 => Ok((matrices, loops[at].0)),
            off => Err(NoExchange::Starts(off)),
        }
    }
}
