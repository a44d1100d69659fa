//! Each thread's coordinates among the units of its CTA.

use super::emit::{Atom, Emit, Op};
use crate::{
    machine::{Unit, UnitDim},
    nest::{UnitRange, Units},
    op::BinOp,
};

impl Units {
    /// This thread's coordinate: 0 along a dimension that is not used.
    pub(super) fn coordinate(&self, emit: &mut Emit, unit: Unit, dim: UnitDim) -> Atom {
        match self.dims.get(&(unit, dim)) {
            None => Atom::i32(0),
            Some(range) => self.part(emit, *range),
        }
    }

    /// This thread's number among those that compute a tile together.
    pub(super) fn tid(&self, emit: &mut Emit) -> Atom {
        let tid = emit.op(Op::Tid, &[]);
        emit.bin(BinOp::Sub, tid, Atom::i32(self.first.into()))
    }

    /// The part of the thread index that a range of it counts.
    pub(super) fn part(&self, emit: &mut Emit, range: UnitRange) -> Atom {
        let tid = self.tid(emit);
        let shifted = emit.bin(BinOp::Div, tid, Atom::i32(range.stride.into()));
        if u64::from(range.stride) * u64::from(range.extent) == u64::from(self.threads) {
            return shifted;
        }
        emit.bin(BinOp::Rem, shifted, Atom::i32(range.extent.into()))
    }
}
