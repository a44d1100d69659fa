//! Tiles that are stored: whether lanes hold them as `stmatrix` takes them, and as lanes can exchange them.
//!
//! ```text
//! row#lane.y 8   along any other dimension      quad#lane.x 4, pair#vec 2   along the contiguous one
//! row#lane.y 8   along the contiguous one       quad#lane.x 4, pair#unroll 2   along any other    (transposed)
//! ```
//! Lane 4·r + q holds elements 2·q and 2·q + 1 of row r of an 8×8 matrix, as accumulators of `mma` and `wgmma` lie, or, where
//! their operands are swapped, of column r.
//! Four matrices are exchanged: lane 4·r + q then holds the whole of row r of matrix q. They lie beside each other,
//! `four#unroll 4·n` along the contiguous dimension; transposed ones lie where two loops of two steps, or one of four, put them.
//! Source: PTX ISA 9.7.15.5.16 (`stmatrix`), 9.7.15.5.17 (`movmatrix`).

use super::{Access, Digit, LoopKind, MATRIX_ROWS, Nest, Steps};
use crate::{
    index::AxisId,
    machine::{Unit, UnitDim},
};

/// Lanes that hold a row of a matrix.
pub(crate) const LANES_OF_ROW: u32 = 4;

/// The loops that make a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMatrices {
    /// Its rows, one for eight lanes each; columns of transposed ones.
    pub row: Digit,
    /// The four lanes of a row.
    pub quad: Digit,
    /// The two elements of a lane.
    pub pair: Digit,
    /// Lanes hold columns: elements of different rows.
    pub transposed: bool,
}

impl StoredMatrices {
    /// The axis along which elements of a row lie side by side.
    pub fn contiguous(&self) -> AxisId {
        if self.transposed { self.row.axis } else { self.pair.axis }
    }

    /// The digit that goes from row to row of a matrix; eight steps of its stride go through all of them.
    pub fn rows(&self) -> Digit {
        if self.transposed { self.pair } else { self.row }
    }
}

/// Matrices of which four lanes exchange four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangedMatrices {
    /// The loops that make each.
    pub matrices: StoredMatrices,
    /// Expanded loops over them, and of how many neighbouring steps of each four matrices are; their product is four.
    pub fours: Vec<(Digit, u32)>,
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
    /// No expanded loops of two by two steps, or of four, over matrices of which lanes hold columns.
    Columns,
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
        let rows = |by| found(lane(UnitDim::Y), MATRIX_ROWS as u32, by);
        let how = match rows(1) {
            Ok(row) => {
                let quad = found(lane(UnitDim::X), LANES_OF_ROW, 0)?;
                let half = |(d, at): &&(Digit, LoopKind)| {
                    let neighbours = d.axis == quad.axis && d.stride.checked_mul(2) == Some(quad.stride);
                    neighbours && at.is_expanded() && d.steps == Steps::Fixed(2)
                };
                let pair = inside.iter().find(half).map(|(d, _)| *d).ok_or(NoStoredMatrices::Lanes)?;
                StoredMatrices { row, quad, pair, transposed: true }
            }
            Err(_) => {
                let pair = found(LoopKind::Vec, 2, 1)?;
                let quad = found(lane(UnitDim::X), LANES_OF_ROW, 2)?;
                StoredMatrices { row: rows(0)?, quad, pair, transposed: false }
            }
        };
        let own = [how.pair, how.quad, how.row];
        let skewed = own.iter().any(|d| self.skew.contains_key(d));
        if skewed || (0..access.index.len()).all(|dim| moves(&how.rows(), dim) == 0) {
            return Err(NoStoredMatrices::Lanes);
        }
        let others = inside.iter().filter(|(d, _)| !own.contains(d) && d.steps != Steps::Fixed(1));
        match others.map(|(d, _)| (*d, along(d))).find(|(_, by)| by % MATRIX_ROWS != 0) {
            Some((digit, by)) => Err(NoStoredMatrices::Unaligned(digit, by)),
            None => Ok(how),
        }
    }

    /// As [`Nest::stored_matrices`], with all loops around the store, those of the grid too, outermost first: the matrices,
    /// and the loops over those that four lanes exchange.
    ///
    /// # Errors
    /// Why they cannot.
    pub fn exchanged_matrices(
        &self,
        access: &Access,
        loops: &[(Digit, LoopKind)],
    ) -> Result<ExchangedMatrices, NoExchange> {
        let matrices = self.stored_matrices(access, loops).map_err(NoExchange::Matrices)?;
        let axis = matrices.contiguous();
        let runs = |(d, at): &&(Digit, LoopKind)| {
            matches!(at, LoopKind::Seq | LoopKind::Pipe(_)) && d.steps != Steps::Fixed(1)
        };
        let fours = match matrices.transposed {
            true => {
                let last = loops.iter().rposition(|l| runs(&l)).map_or(0, |at| at + 1);
                if let Some(at) = loops[..last].iter().position(|(d, _)| *d == matrices.pair) {
                    let between = loops[at..].iter().find(runs).expect("one runs after the pair");
                    return Err(NoExchange::Between(between.0));
                }
                columns(&loops[last..], &matrices).ok_or(NoExchange::Columns)?
            }
            false => {
                let four = |(d, at): &(Digit, LoopKind)| {
                    let steps = matches!(d.steps, Steps::Fixed(n) if n.is_multiple_of(LANES_OF_ROW));
                    d.axis == axis && i64::from(d.stride) == MATRIX_ROWS && steps && at.is_expanded()
                };
                let at = loops.iter().position(four).ok_or(NoExchange::Fours)?;
                if matrices.quad.axis != axis {
                    return Err(NoExchange::Matrices(NoStoredMatrices::Lanes));
                }
                if let Some((digit, _)) = loops[at..].iter().find(runs) {
                    return Err(NoExchange::Between(*digit));
                }
                vec![(loops[at].0, LANES_OF_ROW)]
            }
        };
        let extent = self.kernel.axes[usize::from(axis.0)].extent.as_constant();
        if let Some(points) = extent.filter(|n| n % MATRIX_ROWS != 0) {
            return Err(NoExchange::Ends(axis, points));
        }
        match access.index[self.contiguous(access.tensor)].constant % MATRIX_ROWS {
            0 => Ok(ExchangedMatrices { matrices, fours }),
            off => Err(NoExchange::Starts(off)),
        }
    }
}

/// Expanded loops of whose steps four transposed matrices are: along the rows first, so that whole sectors are stored.
fn columns(loops: &[(Digit, LoopKind)], matrices: &StoredMatrices) -> Option<Vec<(Digit, u32)>> {
    let mut over: Vec<Digit> =
        loops.iter().filter(|(d, at)| at.is_expanded() && *d != matrices.pair).map(|(d, _)| *d).collect();
    over.sort_by_key(|d| (d.axis != matrices.contiguous(), d.stride));
    let (mut left, mut fours) = (LANES_OF_ROW, Vec::new());
    for digit in over {
        let Steps::Fixed(steps) = digit.steps else { continue };
        if let Some(taken) = [4, 2].into_iter().find(|n| left.is_multiple_of(*n) && steps.is_multiple_of(*n))
        {
            fours.push((digit, taken));
            left /= taken;
        }
    }
    (left == 1).then_some(fours)
}
