//! Arithmetic that is exact under reassociation: two orders of one sum have one result, and a wrong rewrite has another.

use crate::{
    dtype::DType,
    op::{BinOp, CmpOp, RedOp, UnOp, binary::Unit},
    tile::evaluate::semantics::{Exact, Semantics},
};

/// Integers modulo a prime, held as `f64`.
pub(super) struct Modular;

const PRIME: u64 = 998_244_353;

fn residue(x: f64) -> u64 {
    if x.is_finite() { (x.rem_euclid(PRIME as f64)) as u64 } else { 0 }
}

/// A fixed function without structure that a wrong rewrite could hide behind.
fn scramble(x: u64, salt: u64) -> f64 {
    let y = (x + 1 + salt * 7919) * 1_103_515_245 % PRIME;
    (y * y % PRIME) as f64
}

impl Semantics for Modular {
    type E = f64;

    fn input(x: f64) -> f64 {
        residue(x) as f64
    }
    fn literal(x: f64, _: DType) -> f64 {
        residue(x) as f64
    }
    fn un(op: UnOp, dtype: DType, x: f64, root: bool) -> f64 {
        match op {
            _ if dtype.is_integer() => Exact::un(op, dtype, x, root),
            UnOp::Neg => ((PRIME - residue(x)) % PRIME) as f64,
            UnOp::Not => f64::from(u8::from(x == 0.0)),
            _ => scramble(residue(x), op as u64),
        }
    }
    fn bin(op: BinOp, dtype: DType, a: f64, b: f64, root: bool) -> f64 {
        if !dtype.is_float() {
            return Exact::bin(op, dtype, a, b, root);
        }
        let row = op.row();
        let whole = row.int.filter(|_| row.float.is_some_and(|real| real.results.unit != Unit::Rounded));
        match whole.and_then(|int| Some((int.wraps, (int.checked)(a as i64, b as i64)?))) {
            Some((true, z)) => z.rem_euclid(PRIME as i64) as f64,
            Some((false, z)) => z as f64,
            // A quotient is a product with something that the divisor decides.
            None => (residue(a) * residue(scramble(residue(b), 97)) % PRIME) as f64,
        }
    }
    fn cmp(op: CmpOp, a: f64, b: f64) -> f64 {
        Exact::cmp(op, a, b)
    }
    fn holds(condition: f64) -> bool {
        condition != 0.0
    }
    fn number(x: f64) -> f64 {
        x
    }
    fn cast(_: DType, _: DType, x: f64, _: bool) -> f64 {
        x
    }
    fn fma(dtype: DType, a: f64, b: f64, acc: f64) -> f64 {
        Self::bin(BinOp::Add, dtype, Self::bin(BinOp::Mul, dtype, a, b, false), acc, false)
    }
}

/// Neutral elements of reductions.
pub(super) trait Neutral: Semantics<E = f64> {
    fn neutral(op: RedOp, dtype: DType) -> f64;
}

impl Neutral for Exact {
    fn neutral(op: RedOp, dtype: DType) -> f64 {
        Exact::literal(op.neutral().into(), dtype)
    }
}

impl Neutral for Modular {
    fn neutral(op: RedOp, _: DType) -> f64 {
        // Numbers are from 0 to the prime.
        f64::from(op.neutral()).clamp(0.0, PRIME as f64)
    }
}
