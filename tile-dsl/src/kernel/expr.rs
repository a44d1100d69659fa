//! What a thread computes without side effects.

use super::Var;
#[cfg(doc)]
use super::{Frag, Kernel};
use crate::{
    dtype::DType,
    index::Extent,
    op::{BinOp, CmpOp, UnOp},
};
use serde::{Deserialize, Serialize};

/// Scalar expressions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// Floating-point literal.
    Float(f64, DType),
    /// Integer literal.
    Int(i64, DType),
    /// Boolean literal.
    Bool(bool),
    /// A variable.
    Var(Var),
    /// A register slot.
    Slot {
        /// Position in [`Kernel::frags`].
        frag: u32,
        /// Slot, below [`Frag::slots`].
        slot: u32,
    },
    /// `%tid.x`, `i32` in `0..threads`.
    Tid,
    /// `%ctaid.x`, `i32`.
    Cta,
    /// `%nctaid.x`, `i32`: CTAs of the grid.
    Ctas,
    /// Tiles of all problems of a grouped kernel, `i32`.
    Tiles,
    /// Extent made of named dims, `i32`.
    Dim(Extent),
    /// Scalar parameter, by position in [`Kernel::params`].
    Scalar(u32),
    /// One operand.
    Un(UnOp, Box<Expr>),
    /// Two operands of equal type. Float `a * b + c` is fused only by [`Expr::Fma`]. Integer arithmetic is that of
    /// indices, which neither overflows nor divides by zero.
    Bin(BinOp, Box<Expr>, Box<Expr>),
    /// `+ - * / % <<` of the kernel's own integers, defined for all operands by [`crate::op::binary::Integer::value`].
    Wrapping(BinOp, Box<Expr>, Box<Expr>),
    /// `a * b + c`, rounded once.
    Fma(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Comparison.
    Cmp(CmpOp, Box<Expr>, Box<Expr>),
    /// Choice; both sides are evaluated.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Conversion: float ↔ float rounds to nearest even, float → int truncates, int → int extends or wraps.
    Cast(DType, Box<Expr>),
}

impl Expr {
    /// Two results of a reduction as one. Integers of the kernel wrap around.
    pub fn combined(op: BinOp, dtype: DType, a: Expr, b: Expr) -> Expr {
        let (a, b) = (Box::new(a), Box::new(b));
        if op.wraps(dtype) { Expr::Wrapping(op, a, b) } else { Expr::Bin(op, a, b) }
    }

    /// Calls `f` with each expression in this one, itself included.
    pub fn each(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        match self {
            Expr::Float(..)
            | Expr::Int(..)
            | Expr::Bool(_)
            | Expr::Var(_)
            | Expr::Slot { .. }
            | Expr::Tid
            | Expr::Cta
            | Expr::Ctas
            | Expr::Tiles
            | Expr::Dim(_)
            | Expr::Scalar(_) => {}
            Expr::Un(_, x) | Expr::Cast(_, x) => x.each(f),
            Expr::Bin(_, a, b) | Expr::Wrapping(_, a, b) | Expr::Cmp(_, a, b) => {
                a.each(f);
                b.each(f);
            }
            Expr::Fma(a, b, c) | Expr::Select(a, b, c) => [a, b, c].into_iter().for_each(|e| e.each(f)),
        }
    }

    /// Whether the value depends on one of some variables.
    pub fn mentions(&self, vars: &[Var]) -> bool {
        let mut found = false;
        self.each(&mut |e| found |= matches!(e, Expr::Var(var) if vars.contains(var)));
        found
    }
}
