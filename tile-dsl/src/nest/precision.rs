//! In what precision the factors of a product are multiplied.

use super::{Expr, Nest};
use crate::{
    dtype::DType,
    op::{BinOp, UnOp},
};

impl Nest {
    /// Whether both factors of a product are f32 rounded to tf32. Rounding leaves 16-bit numbers as they are.
    pub fn rounds(&self, product: &Expr) -> bool {
        match product {
            Expr::Cast(_, inner) => self.rounds(inner),
            Expr::Bin(BinOp::Mul, x, y) => self.is_rounded(x) && self.is_rounded(y),
            _ => false,
        }
    }

    fn is_rounded(&self, factor: &Expr) -> bool {
        match factor {
            Expr::Un(UnOp::Tf32, inner) => {
                self.factor(inner).is_ok_and(|read| self.elem(self.access(read).tensor) == DType::F32)
            }
            Expr::Cast(_, inner) => self.is_rounded(inner),
            _ => false,
        }
    }
}
