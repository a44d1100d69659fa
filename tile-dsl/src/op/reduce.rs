//! Reductions over an axis: an operator is a row of the table.

use super::BinOp;
use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// What is known of a reduction.
#[derive(Clone, Copy)]
pub struct Reduction {
    /// Name in the printed IRs and in kernels.
    pub name: &'static str,
    /// The operator that combines two partial results.
    pub combine: BinOp,
    /// The element that leaves every other unchanged.
    pub neutral: f32,
}

macro_rules! operators {
    ($($(#[$doc:meta])* $op:ident => $name:literal, $combine:ident, $neutral:expr;)*) => {
        /// Reductions over an axis.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum RedOp {
            $($(#[$doc])* $op,)*
        }

        impl RedOp {
            /// Every reduction.
            pub const ALL: &[RedOp] = &[$(RedOp::$op),*];

            /// Its row.
            pub const fn row(self) -> &'static Reduction {
                match self {
                    $(RedOp::$op => const {
                        &Reduction { name: $name, combine: BinOp::$combine, neutral: $neutral }
                    },)*
                }
            }
        }
    };
}

operators! {
    /// Sum; neutral element 0. 16-bit floats accumulate in f32, see [`RedOp::accumulator`].
    Add => "sum", Add, 0.0;
    /// Maximum, NaN if an element is; neutral element −∞.
    Max => "max", Max, f32::NEG_INFINITY;
    /// Minimum, NaN if an element is; neutral element +∞.
    Min => "min", Min, f32::INFINITY;
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
