//! Operands of atoms that `ldmatrix` does not read: each lane loads its elements by themselves.
//!
//! Of a matrix of 8 rows of 16 bytes, lane 4·r + c holds word c of row r, rows along m or n and columns along k (PTX ISA 9.7.15.5.4,
//! 9.7.15.5.10). So k need not be contiguous: a word has one element of 32 bits, or four of 8 bits.

use super::{
    context::Cx,
    emit::Atom as Operand,
    env::Staged,
    error::LowerError,
    linear::Linear,
    loads,
    operand::{self, Reads},
};
use crate::{
    kernel::Expr as KExpr,
    nest::{AccessId, UnitRange},
};

/// Lanes along a row of a matrix, and rows.
const LANES: [u32; 2] = [4, 8];

/// The offsets of what this lane holds of an operand of the atom at the current point, in the order of its registers;
/// `None` where `ldmatrix` reads it.
pub(super) fn words(
    cx: &mut Cx<'_>,
    access: AccessId,
    reads: &Reads,
    stage: &Staged,
) -> Result<Option<Vec<Linear>>, LowerError> {
    let how = operand::matrices(cx, access)?;
    if !how.words {
        return Ok(None);
    }
    let mut first = loads::staged_offset(cx, access, stage);
    for (range, weight) in [
        (UnitRange { stride: 1, extent: LANES[0] }, reads.each as i64 * how.k),
        (UnitRange { stride: LANES[0], extent: LANES[1] }, how.free),
    ] {
        if let Operand::Var(part) = cx.env.tile.units.part(&mut cx.build.emit, range) {
            first.add_scaled(&Linear::var(part), weight);
        }
    }
    let moved = |element: usize| {
        let (register, within) = (element / reads.each, element % reads.each);
        let mut offset = first.clone();
        offset.constant += within as i64 * how.k;
        for (bit, [free, k]) in reads.order.iter().enumerate() {
            if register >> bit & 1 == 1 {
                offset.constant += i64::from(*free) * how.free + i64::from(*k) * how.k;
            }
        }
        offset
    };
    Ok(Some((0..reads.elements).map(moved).collect()))
}

/// The element of a copy at an offset, loaded once in a straight line.
pub(super) fn word(cx: &mut Cx<'_>, stage: &Staged, offset: &Linear) -> KExpr {
    let (base, constant) = stage.place(&mut cx.build.emit, offset);
    let dtype = cx.view.nest.elem(stage.tensor);
    loads::load_shared(cx, stage.buffer, dtype, base, constant, None).expr()
}
