//! Scalar operators shared by the three IRs.

use serde::{Deserialize, Serialize};

/// One-operand operators, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnOp {
    /// `-x`.
    Neg,
    /// e^x.
    Exp,
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
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`, correctly rounded for floats, truncating for `i32`.
    Div,
    /// Remainder, of `i32` only.
    Rem,
    /// Larger operand; a NaN operand loses (PTX `max.f32`).
    Max,
    /// Smaller operand; a NaN operand loses (PTX `min.f32`).
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
    /// Sum; neutral element 0.
    Add,
    /// Maximum; neutral element −∞.
    Max,
    /// Minimum; neutral element +∞.
    Min,
}

impl UnOp {
    /// Every operator with its name in the printed IRs and in kernels.
    pub const ALL: [(UnOp, &'static str); 8] = [
        (UnOp::Neg, "neg"),
        (UnOp::Exp, "exp"),
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
    /// The operator that combines two partial results.
    pub fn combine(self) -> BinOp {
        match self {
            RedOp::Add => BinOp::Add,
            RedOp::Max => BinOp::Max,
            RedOp::Min => BinOp::Min,
        }
    }
}
