//! The table of atoms: in it an instruction is a row. Rows that differ in their numbers of columns alone stand together.
//!
//! Source: PTX ISA 9.7.15.5 (`mma.sync`, fragments), 9.7.16.5 (`wgmma`, accumulators in registers).

use super::Scope;
use crate::{
    dtype::DType,
    machine::{Target, Unit, UnitDim},
};

/// Where a digit of a fragment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Register slots.
    Slot,
    /// Lanes of a warp, or warps of a warpgroup.
    Unit(Unit, UnitDim),
}

/// A digit of an operand's dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What its loop is called, after the axis: `j.pair`.
    pub name: &'static str,
    /// Weight of a step, in points of the dimension.
    pub stride: u32,
    /// Steps.
    pub steps: u32,
    /// Where its steps lie.
    pub place: Place,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// As directives name it; what it multiplies says which of several it is.
    pub name: &'static str,
    /// As a directive may be written.
    pub example: &'static str,
    /// As the printed IRs name it; the columns follow where there are several shapes.
    pub label: &'static str,
    /// Points of m, n and k.
    pub shape: [u32; 3],
    /// Who executes it.
    pub scope: Scope,
    /// What it takes to run it.
    pub target: Target,
    /// The second operand is read from shared memory by the instruction, which completes later; so is the first one, unless lanes
    /// compute it.
    pub descriptors: bool,
    /// Points of k of both operands lie side by side there; otherwise those of m or n may.
    pub k_major: bool,
    /// Element types of both operands, and as the instruction names each.
    pub operands: &'static [(DType, &'static str)],
    /// They are rounded to tf32.
    pub rounded: bool,
    /// The two may have different types of these.
    pub mixed: bool,
    /// More than 32 columns are a multiple of 16.
    pub by_sixteen: bool,
    /// Element type of the accumulator.
    pub accumulator: DType,
    /// Digits of m of the accumulator, largest stride first.
    pub m: &'static [Part],
    /// Digits of n of the accumulator, likewise.
    pub n: &'static [Part],
    /// Weight of a step of each slot digit in the number of the accumulator's register: those of m, then those of n.
    pub slots: &'static [u32],
    /// The 8×8 matrices of the first operand in the order of its registers, as digits of their number: by how much a
    /// step moves along m and along k.
    pub a: &'static [[u32; 2]],
    /// Those of the second operand, where lanes hold it: along n and along k.
    pub b: &'static [[u32; 2]],
    /// Fused multiply-adds a cycle of one multiprocessor, dense, by compute capability (architecture white papers of the
    /// A100 and the H100). Those that are not published in one number are left out.
    pub rates: &'static [(u32, u32)],
}

/// Every instruction; the index is its number in encoded programs, so new ones come last.
pub(super) static ATOMS: [&[Row]; 7] =
    [&[MMA], &[MMA_TF32], &WGMMA, &WGMMA_F8, &WGMMA_TF32, &[MMA_I8], &WGMMA_I8];

impl Row {
    /// As the instruction names an element type of its operands; nothing where it has none of it.
    pub fn ptx(&self, dtype: DType) -> Option<&'static str> {
        self.operands.iter().find(|(d, _)| *d == dtype).map(|(_, name)| *name)
    }

    /// Fused multiply-adds a cycle of a multiprocessor of this compute capability, if they are published.
    pub fn rate(&self, sm: u32) -> Option<u32> {
        self.rates.iter().find(|(of, _)| *of == sm).map(|(_, rate)| *rate)
    }

    /// Whether there is such an instruction: not every number of columns is one.
    pub(super) fn exists(&self) -> bool {
        let columns = self.shape[1];
        !self.by_sixteen || columns <= 32 || columns.is_multiple_of(16)
    }

    /// Whether its operands may have an element type.
    pub fn multiplies(&self, dtype: DType) -> bool {
        self.ptx(dtype).is_some()
    }
}

/// The four lanes of a row of a matrix.
pub(super) const QUAD: Place = Place::Unit(Unit::Lane, UnitDim::X);
/// The eight rows of a matrix.
pub(super) const ROW: Place = Place::Unit(Unit::Lane, UnitDim::Y);
/// The four warps of a warpgroup.
const WARP: Place = Place::Unit(Unit::Warp, UnitDim::X);

const HALF_OF_ROWS: Part = Part { name: "half", stride: 8, steps: 2, place: Place::Slot };
const ROWS: Part = Part { name: "row", stride: 1, steps: 8, place: ROW };

/// Columns of sums, by twos.
pub(super) const QUADS: Part = Part { name: "quad", stride: 2, steps: 4, place: QUAD };
/// The two of a lane.
pub(super) const PAIR: Part = Part { name: "pair", stride: 1, steps: 2, place: Place::Slot };

/// Of eight columns there is one group.
pub(super) const ONE_GROUP: Part = Part { name: "group", stride: 8, steps: 1, place: Place::Slot };
/// An element that fills a register is a pair of its own.
pub(super) const ONE_OF_PAIR: Part = Part { steps: 1, ..PAIR };

/// `mma.sync.aligned.m16n8k16.row.col`, 16-bit operands, `f32` accumulators.
const MMA: Row = Row {
    name: "mma",
    example: "mma",
    label: "mma",
    shape: [16, 8, 16],
    scope: Scope::Warp,
    target: Target { sm: 80, specific: false },
    descriptors: false,
    k_major: false,
    operands: &[(DType::F16, "f16"), (DType::BF16, "bf16")],
    rounded: false,
    mixed: false,
    by_sixteen: false,
    accumulator: DType::F32,
    m: &[HALF_OF_ROWS, ROWS],
    n: &[QUADS, PAIR],
    slots: &[2, 1],
    a: &[[8, 0], [0, 8]],
    b: &[[0, 8]],
    rates: &[(80, 1024)],
};

/// `mma.sync.aligned.m16n8k8.row.col`, `f32` operands rounded to tf32, `f32` accumulators.
const MMA_TF32: Row = Row {
    label: "mma_tf32",
    shape: [16, 8, 8],
    operands: &[(DType::F32, "tf32")],
    rounded: true,
    a: &[[8, 0], [0, 4]],
    b: &[[0, 4]],
    rates: &[(80, 512)],
    ..MMA
};

/// `mma.sync.aligned.m16n8k32.row.col`, operands of 8 bits, each with its own sign, `i32` accumulators that wrap around.
const MMA_I8: Row = Row {
    label: "mma_i8",
    shape: [16, 8, 32],
    operands: EIGHT_BITS,
    mixed: true,
    accumulator: DType::I32,
    a: &[[8, 0], [0, 16]],
    b: &[[0, 16]],
    rates: &[(80, 2048)],
    ..MMA
};

/// Integers of 8 bits.
const EIGHT_BITS: &[(DType, &str)] = &[(DType::I8, "s8"), (DType::U8, "u8")];

/// Numbers of columns that `wgmma` takes: 8, 16, up to 256.
const WGMMA_SIZES: usize = 32;

/// Digits of n by number of columns, in eights less one; of eight columns there is one group, which is left out.
static WGMMA_COLUMNS: [[Part; 3]; WGMMA_SIZES] = {
    let mut all = [[QUADS, QUADS, PAIR]; WGMMA_SIZES];
    let mut n = 0;
    while n < WGMMA_SIZES {
        all[n][0] = Part { name: "group", stride: 8, steps: n as u32 + 1, place: Place::Slot };
        n += 1;
    }
    all
};

/// A row for each number of columns.
const fn of_all_sizes(row: Row) -> [Row; WGMMA_SIZES] {
    let mut all = [row; WGMMA_SIZES];
    let mut n = 0;
    while n < WGMMA_SIZES {
        all[n].shape[1] = 8 * (n as u32 + 1);
        if n == 0 {
            (all[n].n, all[n].slots) = (&[QUADS, PAIR], &[2, 1]);
        } else {
            all[n].n = &WGMMA_COLUMNS[n];
        }
        n += 1;
    }
    all
}

const WGMMA_ROW: Row = Row {
    name: "wgmma",
    example: "wgmma(64, 128)",
    label: "wgmma64x",
    shape: [64, 8, 16],
    scope: Scope::Warpgroup,
    target: Target { sm: 90, specific: true },
    descriptors: true,
    m: &[Part { name: "warp", stride: 16, steps: 4, place: WARP }, HALF_OF_ROWS, ROWS],
    slots: &[2, 4, 1],
    b: &[],
    rates: &[(90, 2048)],
    ..MMA
};

/// `wgmma.mma_async.sync.aligned.m64nNk16`, 16-bit operands in shared memory, `f32` accumulators.
static WGMMA: [Row; WGMMA_SIZES] = of_all_sizes(WGMMA_ROW);

/// `wgmma.mma_async.sync.aligned.m64nNk32`, operands of e4m3 in shared memory, `f32` accumulators of 13 bits of fraction.
static WGMMA_F8: [Row; WGMMA_SIZES] = of_all_sizes(Row {
    label: "wgmma_f8_64x",
    shape: [64, 8, 32],
    operands: &[(DType::F8, "e4m3")],
    k_major: true,
    a: &[[8, 0], [0, 16]],
    rates: &[(90, 4096)],
    ..WGMMA_ROW
});

/// `wgmma.mma_async.sync.aligned.m64nNk32`, operands of 8 bits in shared memory, each with its own sign, `i32` accumulators that wrap
/// around.
static WGMMA_I8: [Row; WGMMA_SIZES] = of_all_sizes(Row {
    label: "wgmma_i8_64x",
    shape: [64, 8, 32],
    operands: EIGHT_BITS,
    mixed: true,
    by_sixteen: true,
    accumulator: DType::I32,
    k_major: true,
    a: MMA_I8.a,
    rates: &[(90, 4096)],
    ..WGMMA_ROW
});

/// `wgmma.mma_async.sync.aligned.m64nNk8`, `f32` operands in shared memory that were rounded to tf32 on their way there,
/// `f32` accumulators.
static WGMMA_TF32: [Row; WGMMA_SIZES] = of_all_sizes(Row {
    label: "wgmma_tf32_64x",
    shape: [64, 8, 8],
    operands: &[(DType::F32, "tf32")],
    rounded: true,
    k_major: true,
    a: MMA_TF32.a,
    rates: &[(90, 1024)],
    ..WGMMA_ROW
});
