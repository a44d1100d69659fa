//! Reductions over an axis: an operator is a row of the table.

use super::BinOp;
use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// What is known of a reduction.
#[derive(Clone, Copy)]
pub struct Reduction {
    /// Name in the printed IRs and in kernels.
    pub name: &'static str,
    /// The statement that combines a tensor's elements so, atomically.
    pub atomic: &'static str,
    /// The function that gives the reduction of all points up to each.
    pub scan: &'static str,
    /// The operator that combines two partial results.
    pub combine: BinOp,
    /// The element that leaves every other unchanged.
    pub neutral: f32,
}

macro_rules! operators {
    ($($(#[doc = $doc:literal])* $op:ident => $name:literal, $atomic:literal, $scan:literal, $combine:ident, $neutral:expr;)*) => {
        /// Reductions over an axis.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum RedOp {
            $($(#[doc = $doc])* $op,)*
        }

        impl RedOp {
            /// Every reduction.
            pub const ALL: &[RedOp] = &[$(RedOp::$op),*];

            /// Its row.
            pub const fn row(self) -> &'static Reduction {
                match self {
                    $(RedOp::$op => const {
                        &Reduction { name: $name, atomic: $atomic, scan: $scan, combine: BinOp::$combine, neutral: $neutral }
                    },)*
                }
            }

            /// Its card, for the reference of operations.
            pub const fn card(self) -> &'static str {
                match self {
                    $(RedOp::$op => concat!($($doc, "\n"),*),)*
                }
            }
        }
    };
}

operators! {
    /// `sum(x, j)`: the sum of the elements along an axis. The sum of none is 0.
    ///
    /// ```text
    /// a / sum(a, j)
    /// ```
    /// - Requires: numbers, and a value that has the axis. The axis is one of `whole`, or of the loop over `tiles` around it, and none of `program_tile`.
    /// - Error: integers wrap around. Floats of 16 and 8 bits are added in `f32`, and the sum is rounded once, where it is used. A schedule may add in another order.
    /// - Costs: as many additions as elements. Each thread adds alone, unless the schedule shares the axis out and says who combines the parts.
    /// - See also: `dot`, `assignment`, `reduce`, `split_k`.
    Add => "sum", "atomic_add", "cumsum", Add, 0.0;
    /// `max(x, j)`: the largest element along an axis. It is NaN if one is; of no elements it is −∞, in `f8` −448, in `i32` −2³¹.
    ///
    /// ```text
    /// a - max(a, j)
    /// ```
    /// - Requires: numbers, and a value that has the axis. The axis is one of `whole`, or of the loop over `tiles` around it, and none of `program_tile`.
    /// - Costs: an instruction for each element. Each thread works alone, unless the schedule shares the axis out and says who combines the parts.
    /// - See also: `max of two values`, `sum over an axis`, `reduce`.
    Max => "max", "atomic_max", "cummax", Max, f32::NEG_INFINITY;
    /// `min(x, j)`: the smallest element along an axis. It is NaN if one is; of no elements it is +∞, in `f8` 448, in `i32` 2³¹ − 1.
    ///
    /// ```text
    /// a - min(a, j)
    /// ```
    /// - Requires: numbers, and a value that has the axis. The axis is one of `whole`, or of the loop over `tiles` around it, and none of `program_tile`.
    /// - Costs: an instruction for each element. Each thread works alone, unless the schedule shares the axis out and says who combines the parts.
    /// - See also: `min of two values`, `sum over an axis`, `reduce`.
    Min => "min", "atomic_min", "cummin", Min, f32::INFINITY;
}

impl RedOp {
    /// Name in the printed IRs.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Inverse of [`RedOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Name of the statement that combines a tensor's elements so, atomically.
    pub const fn atomic(self) -> &'static str {
        self.row().atomic
    }

    /// Inverse of [`RedOp::atomic`].
    pub fn from_atomic(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.atomic() == name)
    }

    /// Name of the function that gives the reduction of all points up to each.
    pub const fn scan(self) -> &'static str {
        self.row().scan
    }

    /// Inverse of [`RedOp::scan`].
    pub fn from_scan(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.scan() == name)
    }

    /// Whether a GPU combines elements of a type in memory by one instruction: `red` (PTX ISA 9.7.13.9).
    pub fn is_atomic(self, dtype: DType) -> bool {
        match self {
            RedOp::Add => matches!(dtype, DType::F32 | DType::I32 | DType::U32),
            RedOp::Max | RedOp::Min => matches!(dtype, DType::I32 | DType::U32),
        }
    }

    /// The element that leaves every other unchanged.
    pub const fn neutral(self) -> f32 {
        self.row().neutral
    }

    /// The operator that combines two partial results.
    pub const fn combine(self) -> BinOp {
        self.row().combine
    }

    /// The reduction whose partial results an operator combines.
    pub fn combined_by(op: BinOp) -> Option<Self> {
        Self::ALL.iter().copied().find(|reduction| reduction.combine() == op)
    }

    /// Whether results are rounded: those of a sum. A maximum is one of its elements.
    pub fn rounds(self) -> bool {
        self.combine().row().float.is_some_and(|real| real.steps > 0)
    }

    /// The type in which a reduction of `dtype` elements accumulates. A sum of floats of 16 or 8 bits does so in f32 and is rounded
    /// once, when it is used; a maximum or minimum is one of its elements.
    pub fn accumulator(self, dtype: DType) -> DType {
        if self.rounds() && dtype.is_float() { DType::F32 } else { dtype }
    }
}
