//! Scalar operators shared by the three IRs.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// One-operand operators, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnOp {
    /// `-x`.
    Neg,
    /// e^x.
    Exp,
    /// 2^x.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Square root, correctly rounded.
    Sqrt,
    /// 1/√x.
    Rsqrt,
    /// Hyperbolic tangent.
    Tanh,
    /// Absolute value.
    Abs,
    /// Logical not of a `bool`.
    Not,
}

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

impl UnOp {
    /// Every operator with its name in the printed IRs and in kernels.
    pub const ALL: [(UnOp, &'static str); 9] = [
        (UnOp::Neg, "neg"),
        (UnOp::Exp, "exp"),
        (UnOp::Exp2, "exp2"),
        (UnOp::Log, "log"),
        (UnOp::Sqrt, "sqrt"),
        (UnOp::Rsqrt, "rsqrt"),
        (UnOp::Tanh, "tanh"),
        (UnOp::Abs, "abs"),
        (UnOp::Not, "not"),
    ];
    /// Name in the printed IRs.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(op, _)| *op == self).expect("listed").1
    }
    /// Inverse of [`UnOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
    }
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
    /// The type in which a reduction of `dtype` elements accumulates. A sum of 16-bit floats does so in f32 and is rounded
    /// once, when it is used; a maximum or minimum is one of its elements.
    pub fn accumulator(self, dtype: DType) -> DType {
        match (self, dtype) {
            (RedOp::Add, DType::F16 | DType::BF16) => DType::F32,
            _ => dtype,
        }
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
