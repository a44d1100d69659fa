//! Scalar arithmetic of the interpreter: f32 in f32, 16-bit floats widened, computed and rounded.

use super::{Ty, elem};
use crate::{
    dtype::DType,
    op::{BinOp, CmpOp, UnOp},
};

/// A value of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float of a type, widened.
    Float(f32, DType),
    /// `i32` or `i64`.
    Int(i64),
    /// `bool`.
    Bool(bool),
}

type Eval<T = Scalar> = Result<T, String>;

impl Scalar {
    /// An element of a type.
    pub fn from_f32(x: f32, dtype: DType) -> Scalar {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => Scalar::Float(dtype.round(x), dtype),
            DType::I32 => Scalar::Int(x as i64),
            DType::Bool => Scalar::Bool(x != 0.0),
        }
    }

    /// As stored in a tensor.
    pub(super) fn to_f32(self) -> Eval<f32> {
        match self {
            Scalar::Float(x, _) => Ok(x),
            Scalar::Int(n) => Ok(n as f32),
            Scalar::Bool(_) => Err("a bool in memory".into()),
        }
    }

    pub(super) fn int(self) -> Eval<i64> {
        match self {
            Scalar::Int(n) => Ok(n),
            _ => Err(format!("{self:?} where an integer is expected")),
        }
    }

    pub(super) fn bool(self) -> Eval<bool> {
        match self {
            Scalar::Bool(b) => Ok(b),
            _ => Err(format!("{self:?} where a bool is expected")),
        }
    }
}

pub(super) fn un(op: UnOp, a: Scalar) -> Eval {
    match (op, a) {
        (UnOp::Not, Scalar::Bool(b)) => Ok(Scalar::Bool(!b)),
        (UnOp::Neg, Scalar::Int(n)) => Ok(Scalar::Int(-n)),
        (UnOp::Abs, Scalar::Int(n)) => Ok(Scalar::Int(n.abs())),
        (op, Scalar::Float(x, dtype)) => {
            let y = match op {
                UnOp::Neg => -x,
                UnOp::Exp => x.exp(),
                UnOp::Log => x.ln(),
                UnOp::Sqrt => x.sqrt(),
                UnOp::Rsqrt => 1.0 / x.sqrt(),
                UnOp::Tanh => x.tanh(),
                UnOp::Abs => x.abs(),
                UnOp::Not => return Err("not of a float".into()),
            };
            Ok(Scalar::Float(dtype.round(y), dtype))
        }
        _ => Err(format!("{} of {a:?}", op.name())),
    }
}

/// `wide`: integers are `i64`.
pub(super) fn bin(op: BinOp, a: Scalar, b: Scalar, wide: bool) -> Eval {
    match (a, b) {
        (Scalar::Float(x, dtype), Scalar::Float(y, _)) => {
            let z = match op {
                BinOp::Add => x + y,
                BinOp::Sub => x - y,
                BinOp::Mul => x * y,
                BinOp::Div => x / y,
                BinOp::Max => x.max(y),
                BinOp::Min => x.min(y),
                BinOp::Rem | BinOp::And | BinOp::Or => return Err(format!("{} of floats", op.name())),
            };
            Ok(Scalar::Float(dtype.round(z), dtype))
        }
        (Scalar::Int(x), Scalar::Int(y)) => {
            let z = match op {
                BinOp::Add => x.checked_add(y),
                BinOp::Sub => x.checked_sub(y),
                BinOp::Mul => x.checked_mul(y),
                BinOp::Div => x.checked_div(y),
                BinOp::Rem => x.checked_rem(y),
                BinOp::Max => Some(x.max(y)),
                BinOp::Min => Some(x.min(y)),
                BinOp::And | BinOp::Or => return Err(format!("{} of integers", op.name())),
            };
            // The lowering promises that no index wraps.
            match z {
                Some(z) if wide || i32::try_from(z).is_ok() => Ok(Scalar::Int(z)),
                _ => Err(format!("{x} {} {y} overflows", op.name())),
            }
        }
        (Scalar::Bool(x), Scalar::Bool(y)) => match op {
            BinOp::And => Ok(Scalar::Bool(x && y)),
            BinOp::Or => Ok(Scalar::Bool(x || y)),
            _ => Err(format!("{} of bools", op.name())),
        },
        _ => Err(format!("{} of {a:?} and {b:?}", op.name())),
    }
}

pub(super) fn fma(a: Scalar, b: Scalar, c: Scalar) -> Eval {
    match (a, b, c) {
        (Scalar::Float(a, dtype), Scalar::Float(b, _), Scalar::Float(c, _)) => {
            Ok(Scalar::Float(dtype.round(a.mul_add(b, c)), dtype))
        }
        _ => Err("fma of something else than floats".into()),
    }
}

pub(super) fn cmp(op: CmpOp, a: Scalar, b: Scalar) -> Eval {
    fn test<T: PartialOrd>(op: CmpOp, a: T, b: T) -> bool {
        match op {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
        }
    }
    match (a, b) {
        (Scalar::Float(x, _), Scalar::Float(y, _)) => Ok(Scalar::Bool(test(op, x, y))),
        (Scalar::Int(x), Scalar::Int(y)) => Ok(Scalar::Bool(test(op, x, y))),
        (Scalar::Bool(x), Scalar::Bool(y)) => Ok(Scalar::Bool(test(op, x, y))),
        _ => Err(format!("{} of {a:?} and {b:?}", op.name())),
    }
}

pub(super) fn cast(ty: Ty, a: Scalar) -> Eval {
    match (elem(ty), a) {
        (None, Scalar::Int(n)) => Ok(Scalar::Int(n)),
        (None, _) => Err(format!("{a:?} as i64")),
        (Some(DType::I32), Scalar::Int(n)) => Ok(Scalar::Int(n as i32 as i64)),
        (Some(DType::I32), Scalar::Float(x, _)) => Ok(Scalar::Int(x as i32 as i64)),
        (Some(DType::I32), Scalar::Bool(b)) => Ok(Scalar::Int(b.into())),
        (Some(dtype), Scalar::Float(x, _)) if dtype.is_float() => Ok(Scalar::Float(dtype.round(x), dtype)),
        (Some(dtype), Scalar::Int(n)) if dtype.is_float() => Ok(Scalar::Float(dtype.round(n as f32), dtype)),
        (Some(dtype), Scalar::Bool(b)) if dtype.is_float() => Ok(Scalar::Float(u8::from(b).into(), dtype)),
        (Some(dtype), _) => Err(format!("{a:?} as {dtype}")),
    }
}
