//! Atoms: instructions that a whole warp executes together, and how their operands lie in its registers.
//!
//! An atom stands in a nest as three loops directly around a `red` of a product, marked `#mma.m`, `#mma.n`, `#mma.k`:
//! the hardware takes all their steps at once. What the loops mean is unchanged. The accumulator's digits lie in lanes
//! and register slots, by the table of the instruction; in this table an instruction is a row.
//!
//! Source: PTX ISA 9.7.15.5 (`mma.sync`, fragments), 9.7.15.5.15 (`ldmatrix`).

use super::{AccessId, At, CopyId, CopyLayout, Digit, Expr, Frame, Nest, Steps};
use crate::{
    dtype::DType,
    index::AxisId,
    op::{BinOp, UnOp},
    schedule::{Space, Unit, UnitDim},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Atom {
    /// `mma.sync.aligned.m16n8k16.row.col`, 16-bit operands, `f32` accumulators.
    Mma,
    /// `mma.sync.aligned.m16n8k8.row.col`, `f32` operands rounded to tf32, `f32` accumulators.
    MmaTf32,
}

/// What a loop of an atom is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Rows of the accumulator and of the first operand.
    M,
    /// Columns of the accumulator and of the second operand.
    N,
    /// What is summed over.
    K,
}

/// The threads that execute a statement together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Each thread by itself.
    Thread,
    /// The 32 lanes of a warp.
    Warp,
}

/// Where a digit of a fragment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Register slots.
    Slot,
    /// Lanes.
    Lane(UnitDim),
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
#[derive(Debug)]
pub struct Row {
    /// As directives name it; what it multiplies says which of several it is.
    pub name: &'static str,
    /// As the printed IRs name it.
    pub label: &'static str,
    /// Points of m, n and k.
    pub shape: [u32; 3],
    /// Who executes it.
    pub scope: Scope,
    /// Element types of both operands.
    pub operands: &'static [DType],
    /// They are rounded to tf32.
    pub rounded: bool,
    /// Element type of the accumulator.
    pub accumulator: DType,
    /// Digits of m of the accumulator, largest stride first.
    pub m: [Part; 2],
    /// Digits of n of the accumulator, likewise.
    pub n: [Part; 2],
    /// Weight of a step of each slot digit in the number of the accumulator's register: those of m, then those of n.
    pub slots: [u32; 2],
    /// The 8×8 matrices of the first operand in the order of its registers, as digits of their number: by how much a
    /// step moves along m and along k.
    pub a: &'static [[u32; 2]],
    /// Those of the second operand: along n and along k.
    pub b: &'static [[u32; 2]],
}

const MMA: Row = Row {
    name: "mma",
    label: "mma",
    shape: [16, 8, 16],
    scope: Scope::Warp,
    operands: &[DType::F16, DType::BF16],
    rounded: false,
    accumulator: DType::F32,
    m: [
        Part { name: "half", stride: 8, steps: 2, place: Place::Slot },
        Part { name: "row", stride: 1, steps: 8, place: Place::Lane(UnitDim::Y) },
    ],
    n: [
        Part { name: "quad", stride: 2, steps: 4, place: Place::Lane(UnitDim::X) },
        Part { name: "pair", stride: 1, steps: 2, place: Place::Slot },
    ],
    slots: [2, 1],
    a: &[[8, 0], [0, 8]],
    b: &[[0, 8]],
};

const MMA_TF32: Row = Row {
    label: "mma_tf32",
    shape: [16, 8, 8],
    operands: &[DType::F32],
    rounded: true,
    a: &[[8, 0], [0, 4]],
    b: &[[0, 4]],
    ..MMA
};

impl Atom {
    /// Every instruction.
    pub const ALL: [Atom; 2] = [Atom::Mma, Atom::MmaTf32];
    /// One of each name that directives use.
    pub const NAMED: [Atom; 1] = [Atom::Mma];

    /// What is known of it.
    pub const fn row(self) -> &'static Row {
        match self {
            Atom::Mma => &MMA,
            Atom::MmaTf32 => &MMA_TF32,
        }
    }

    /// By the name that directives use.
    pub fn from_name(name: &str) -> Option<Atom> {
        Atom::NAMED.into_iter().find(|a| a.row().name == name)
    }

    /// By the name in the printed IRs.
    pub fn from_label(label: &str) -> Option<Atom> {
        Atom::ALL.into_iter().find(|a| a.row().label == label)
    }

    /// Elements of an operand in a register.
    pub const fn each(self) -> usize {
        (4 / self.row().operands[0].bytes()) as usize
    }

    /// Points along one of its dimensions.
    pub const fn size(self, role: Role) -> u32 {
        let [m, n, k] = self.row().shape;
        match role {
            Role::M => m,
            Role::N => n,
            Role::K => k,
        }
    }

    /// The digits of the accumulator along one of its dimensions; k has none.
    pub const fn parts(self, role: Role) -> &'static [Part] {
        let row = self.row();
        match role {
            Role::M => &row.m,
            Role::N => &row.n,
            Role::K => &[],
        }
    }
}

impl Part {
    /// Its digit of an axis, given the digit of the atom.
    pub fn digit(&self, of: Digit) -> Digit {
        Digit { axis: of.axis, stride: of.stride * self.stride, steps: Steps::Fixed(self.steps) }
    }

    /// How a loop over it runs in one thread's view.
    pub fn at(&self) -> At {
        match self.place {
            Place::Slot => At::Unroll,
            Place::Lane(dim) => At::Unit(Unit::Lane, dim),
        }
    }
}

/// A loop as one thread sees it: the loops of an atom fall into lanes and register slots, others are as they are.
pub fn parts(digit: Digit, at: At) -> Vec<(Digit, At)> {
    match at {
        At::Atom(atom, role) => atom.parts(role).iter().map(|p| (p.digit(digit), p.at())).collect(),
        _ => vec![(digit, at)],
    }
}

/// Why an expression is no product that an atom computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoProduct {
    /// It is something else than a product.
    Other,
    /// The product is rounded to a type before it is added.
    Rounded(DType),
    /// A factor is no load.
    Computed,
    /// A load is rounded to a type before it is multiplied.
    Narrowed(AccessId, DType),
}

impl Nest {
    /// The two loads that an expression multiplies, conversions that are exact left out.
    ///
    /// # Errors
    /// What else it is.
    pub fn factors(&self, expr: &Expr) -> Result<[AccessId; 2], NoProduct> {
        match expr {
            Expr::Cast(DType::F32, inner) => match self.factors(inner) {
                // In f32 already, or else rounded.
                Ok(found) if self.is_wide(inner) => Ok(found),
                Ok(found) => Err(NoProduct::Rounded(self.elem(self.access(found[0]).tensor))),
                Err(why) => Err(why),
            },
            Expr::Bin(BinOp::Mul, x, y) => Ok([self.factor(x)?, self.factor(y)?]),
            _ => Err(NoProduct::Other),
        }
    }

    fn factor(&self, expr: &Expr) -> Result<AccessId, NoProduct> {
        match expr {
            Expr::Load(access) => Ok(*access),
            // What it does to the products is for the atom to say: see `is_rounded`.
            Expr::Un(UnOp::Tf32, inner) => self.factor(inner),
            Expr::Cast(to, inner) => {
                let access = self.factor(inner)?;
                let from = self.elem(self.access(access).tensor);
                if *to == from || *to == DType::F32 {
                    Ok(access)
                } else {
                    Err(NoProduct::Narrowed(access, *to))
                }
            }
            _ => Err(NoProduct::Computed),
        }
    }

    /// Whether a product of loads is computed in f32.
    pub fn is_wide(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Bin(BinOp::Mul, x, _) | Expr::Un(UnOp::Tf32, x) => self.is_wide(x),
            Expr::Load(access) => self.elem(self.access(*access).tensor) == DType::F32,
            Expr::Cast(to, _) => *to == DType::F32,
            _ => false,
        }
    }

    /// Whether a factor of a product is f32 and rounded to tf32; 16-bit numbers are not changed by that.
    pub fn is_rounded(&self, factor: &Expr) -> bool {
        match factor {
            Expr::Un(UnOp::Tf32, inner) => {
                self.factor(inner).is_ok_and(|read| self.elem(self.access(read).tensor) == DType::F32)
            }
            Expr::Cast(_, inner) => self.is_rounded(inner),
            _ => false,
        }
    }

    /// The axes that the index of an access mentions.
    pub fn access_axes(&self, access: AccessId) -> BTreeSet<AxisId> {
        self.access(access).index.iter().flat_map(|i| i.terms.keys().copied()).collect()
    }

    /// Whether a load is zero beyond the extent of an axis, because the tensor ends there.
    pub fn ends_with(&self, access: AccessId, axis: AxisId) -> bool {
        let access = self.access(access);
        let extent = &self.kernel.axes[usize::from(axis.0)].extent;
        let dims = &self.tensor(access.tensor).dims;
        access.index.iter().zip(dims).any(|(i, d)| i.as_axis() == Some(axis) && d == extent)
    }
}

/// How an operand is read from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// Elements from one point to the next along m or n.
    pub free: i64,
    /// Elements from one point to the next along k.
    pub k: i64,
    /// Rows run along m or n, not along k: `ldmatrix.trans`.
    pub transposed: bool,
    /// Each lane loads its elements by themselves: `ldmatrix` exchanges rows and columns of 16-bit elements alone.
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
            _ if bytes == 4 => return Ok(Matrices { free, k, transposed: false, words: true }),
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

/// The innermost copy in shared memory of a tensor on a path, with its place on it.
pub fn copy_on(nest: &Nest, path: &[Frame], access: AccessId) -> Option<(usize, CopyId)> {
    let tensor = nest.access(access).tensor;
    path.iter().enumerate().rev().find_map(|(n, f)| match f {
        Frame::Stage(c) if nest.copy(*c).tensor == tensor && nest.copy(*c).space == Space::Shared => {
            Some((n, *c))
        }
        _ => None,
    })
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::M => "m",
            Role::N => "n",
            Role::K => "k",
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Thread => "thread",
            Scope::Warp => "warp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of an accumulator lies in one register of one lane, and the lanes are those of a warp.
    #[test]
    fn accumulators_are_spread_over_a_warp() {
        for atom in Atom::ALL {
            let mut seen = BTreeSet::new();
            let [m, n, _] = atom.row().shape;
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let mut place = Vec::new();
                for (role, at) in [(Role::M, i), (Role::N, j)] {
                    for part in atom.parts(role) {
                        place.push((at / part.stride % part.steps, matches!(part.place, Place::Lane(_))));
                    }
                }
                assert!(seen.insert(place), "{atom}: {i}, {j}");
            }
            let lanes = |role| -> u32 {
                let parts = atom.parts(role).iter();
                parts.filter(|p| matches!(p.place, Place::Lane(_))).map(|p| p.steps).product()
            };
            assert_eq!(lanes(Role::M) * lanes(Role::N), 32, "{atom}");
        }
    }
}
