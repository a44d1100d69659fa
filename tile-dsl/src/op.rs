//! Scalar operators shared by the three IRs.

pub mod functions;
pub mod unary;

pub use unary::UnOp;

use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// Two-operand operators, element by element; operands have equal types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BinOp {
    /// `a + b`; see [`integer`] for `i32`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`, correctly rounded for floats; see [`integer`] for `i32`.
    Div,
    /// Remainder, of `i32` only; see [`integer`].
    Rem,
    /// Larger operand; see [`maximum`] for floats.
    Max,
    /// Smaller operand; see [`minimum`] for floats.
    Min,
    /// Logical and of `bool`.
    And,
    /// Logical or of `bool`.
    Or,
}

/// Comparisons; any comparison with a NaN is false, except `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CmpOp {
    /// `a == b`.
    Eq,
    /// `a != b`.
    Ne,
    /// `a < b`.
    Lt,
    /// `a <= b`.
    Le,
    /// `a > b`.
    Gt,
    /// `a >= b`.
    Ge,
}

/// Reductions over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RedOp {
    /// Sum; neutral element 0. 16-bit floats accumulate in f32, see [`RedOp::accumulator`].
    Add,
    /// Maximum, NaN if an element is; neutral element −∞.
    Max,
    /// Minimum, NaN if an element is; neutral element +∞.
    Min,
}

/// The larger of two numbers, NaN if one is, and +0 of the two zeros: IEEE 754-2019 `maximum`, PTX `max.NaN.f32`, LLVM
/// `llvm.maximum`; a NaN shows as in NumPy and PyTorch.
pub fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && b.is_sign_negative()) {
        a
    } else {
        b
    }
}

/// The smaller of two numbers, NaN if one is, and −0 of the two zeros; as [`maximum`].
pub fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// Arithmetic of `i32` values in kernels. It wraps, as of two's complement numbers; quotients truncate. Dividing by zero
/// gives 0 with remainder 0, as in NumPy; dividing −2³¹ by −1 wraps to −2³¹ with remainder 0.
pub fn integer(op: BinOp, a: i32, b: i32) -> i32 {
    match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div | BinOp::Rem if b == 0 => 0,
        BinOp::Div => a.wrapping_div(b),
        BinOp::Rem => a.wrapping_rem(b),
        BinOp::Max => a.max(b),
        BinOp::Min => a.min(b),
        BinOp::And => a & b,
        BinOp::Or => a | b,
    }
}

/// The nearest number of 11 significant bits, of two the one away from zero: what tensor cores take of an `f32` (PTX
/// `cvt.rna.tf32.f32`). Numbers too large become infinite; NaN stays NaN. Every `f16` and `bf16` is such a number.
pub fn tf32(x: f32) -> f32 {
    const CUT: u32 = 13;
    if !x.is_finite() {
        return x;
    }
    // The carry goes on into the exponent, as it should.
    f32::from_bits((x.to_bits() + (1 << (CUT - 1))) >> CUT << CUT)
}

impl BinOp {
    /// Every operator with its name in the printed IRs.
    pub const ALL: [(BinOp, &'static str); 9] = [
        (BinOp::Add, "+"),
        (BinOp::Sub, "-"),
        (BinOp::Mul, "*"),
        (BinOp::Div, "/"),
        (BinOp::Rem, "%"),
        (BinOp::Max, "max"),
        (BinOp::Min, "min"),
        (BinOp::And, "and"),
        (BinOp::Or, "or"),
    ];
    /// Whether this is one of `+ - * / %`.
    pub fn is_arithmetic(self) -> bool {
        matches!(self, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem)
    }
    /// Name in the printed IRs.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(op, _)| *op == self).expect("listed").1
    }
    /// Inverse of [`BinOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
    }
}

impl CmpOp {
    /// Every comparison with its name in the printed IRs.
    pub const ALL: [(CmpOp, &'static str); 6] = [
        (CmpOp::Eq, "=="),
        (CmpOp::Ne, "!="),
        (CmpOp::Lt, "<"),
        (CmpOp::Le, "<="),
        (CmpOp::Gt, ">"),
        (CmpOp::Ge, ">="),
    ];
    /// Name in the printed IRs.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(op, _)| *op == self).expect("listed").1
    }
    /// Inverse of [`CmpOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
    }
}

impl RedOp {
    /// Every reduction with its name in the printed IRs.
    pub const ALL: [(RedOp, &'static str); 3] =
        [(RedOp::Add, "sum"), (RedOp::Max, "max"), (RedOp::Min, "min")];
    /// Name in the printed IRs.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(op, _)| *op == self).expect("listed").1
    }
    /// Inverse of [`RedOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
    }
    /// The element that leaves every other unchanged.
    pub fn neutral(self) -> f32 {
        match self {
            RedOp::Add => 0.0,
            RedOp::Max => f32::NEG_INFINITY,
            RedOp::Min => f32::INFINITY,
        }
    }
    /// The type in which a reduction of `dtype` elements accumulates. A sum of floats of 16 or 8 bits does so in f32 and is rounded
    /// once, when it is used; a maximum or minimum is one of its elements.
    pub fn accumulator(self, dtype: DType) -> DType {
        if self == RedOp::Add && dtype.is_float() { DType::F32 } else { dtype }
    }
    /// The operator that combines two partial results.
    pub fn combine(self) -> BinOp {
        match self {
            RedOp::Add => BinOp::Add,
            RedOp::Max => BinOp::Max,
            RedOp::Min => BinOp::Min,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf32_rounds_to_nearest_and_ties_away_from_zero() {
        let half = 1.0 / 2048.0;
        for (x, y) in [
            (0.0, 0.0),
            (1.0 + half, 1.0 + 2.0 * half),
            (-1.0 - half, -1.0 - 2.0 * half),
            (1.0 + half - f32::EPSILON, 1.0),
            (1.0 + 3.0 * half, 1.0 + 4.0 * half),
            (2.0 - f32::EPSILON, 2.0),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (f32::from_bits(0x1000), f32::from_bits(0x2000)),
            (f32::from_bits(0x0fff), 0.0),
        ] {
            assert_eq!(tf32(x).to_bits(), y.to_bits(), "{x}");
        }
        assert_eq!(tf32(-0.0).to_bits(), (-0.0f32).to_bits());
        for nan in [0x7fff_ffff, 0x7f80_0001, 0xffc0_0000] {
            assert!(tf32(f32::from_bits(nan)).is_nan());
        }
    }

    #[test]
    fn tf32_leaves_sixteen_bit_numbers_as_they_are() {
        for bits in 0..=u16::MAX {
            for x in [half::f16::from_bits(bits).to_f32(), half::bf16::from_bits(bits).to_f32()] {
                assert!(x.is_nan() || tf32(x).to_bits() == x.to_bits(), "{x}");
            }
        }
    }
}
