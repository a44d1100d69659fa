//! What one operation computes: with exact element types, or in f64 with a magnitude.

use crate::{
    dtype::{DType, Float, Kind},
    op::{BinOp, CmpOp, Makes, UnOp, binary::of_sum, unary::Magnitude},
};

/// Arithmetic of the evaluator. `root`: the result is stored as it is, so its rounding is accounted to the store.
pub(crate) trait Semantics {
    /// An element.
    type E: Copy;
    /// An element of a tensor or an index value: exact.
    fn input(x: f64) -> Self::E;
    /// A number in the source, rounded to its type.
    fn literal(x: f64, dtype: DType) -> Self::E;
    fn un(op: UnOp, dtype: DType, x: Self::E, root: bool) -> Self::E;
    fn bin(op: BinOp, dtype: DType, a: Self::E, b: Self::E, root: bool) -> Self::E;
    fn cmp(op: CmpOp, a: Self::E, b: Self::E) -> Self::E;
    fn holds(condition: Self::E) -> bool;
    /// An index value as a number.
    fn number(x: Self::E) -> f64;
    fn cast(from: DType, to: DType, x: Self::E, root: bool) -> Self::E;
    /// `acc + a·b` in the accumulator's type: rounded once, or wrapped around.
    fn fma(dtype: DType, a: Self::E, b: Self::E, acc: Self::E) -> Self::E;
    /// A factor of products that are added with fewer bits than f32 has: errors may be so much larger.
    fn coarse(x: Self::E, _by: f64) -> Self::E {
        x
    }
}

/// Exact element types. Every element is held as the f64 of the same value.
pub(crate) struct Exact;

impl Semantics for Exact {
    type E = f64;

    fn input(x: f64) -> f64 {
        x
    }

    fn literal(x: f64, dtype: DType) -> f64 {
        dtype.round_f64(x)
    }

    fn un(op: UnOp, dtype: DType, x: f64, _: bool) -> f64 {
        let row = op.row();
        let result = match dtype.format().kind {
            Kind::Float(_) => match (row.float, row.makes) {
                (Some(real), _) => Some(dtype.round((real.value)(x as f32)).into()),
                (None, Some(Makes::Key(key))) => Some(key(x as f32).into()),
                (None, _) => None,
            },
            Kind::Int { .. } if let Some(Makes::Fraction(value)) = row.makes => Some(value(x as u32).into()),
            Kind::Int { .. } => op.of_integer(dtype, x as i64).map(|n| n as f64),
            Kind::Bool => row.truth.map(|value| u8::from(value(x != 0.0)).into()),
        };
        // Others the verifier refuses.
        result.unwrap_or(f64::NAN)
    }

    fn bin(op: BinOp, dtype: DType, a: f64, b: f64, _: bool) -> f64 {
        let row = op.row();
        let result = match dtype.format().kind {
            Kind::Float(_) => row.float.map(|real| dtype.round((real.value)(a as f32, b as f32)).into()),
            Kind::Int { .. } => op.of_integers(dtype, a as i64, b as i64).map(|n| n as f64),
            Kind::Bool => row.truth.map(|value| u8::from(value(a != 0.0, b != 0.0)).into()),
        };
        // Others the verifier refuses.
        result.unwrap_or(f64::NAN)
    }

    fn cmp(op: CmpOp, a: f64, b: f64) -> f64 {
        f64::from(u8::from(op.holds(&a, &b)))
    }

    fn holds(condition: f64) -> bool {
        condition != 0.0
    }

    fn number(x: f64) -> f64 {
        x
    }

    fn cast(from: DType, to: DType, x: f64, _: bool) -> f64 {
        to.cast_f64(from, x)
    }

    fn fma(dtype: DType, a: f64, b: f64, acc: f64) -> f64 {
        if dtype.is_integer() {
            return Self::bin(BinOp::Add, dtype, Self::bin(BinOp::Mul, dtype, a, b, false), acc, false);
        }
        dtype.round((a as f32).mul_add(b as f32, acc as f32)).into()
    }
}

/// f64 without rounding to element types, with a magnitude m such that a computation with unit roundoff u along
/// s rounding steps is off by at most about s·u·m (first order): `|A|·|B|` for a dot, and what the usual
/// condition numbers give for the rest (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3).
pub(super) struct Bounded;

/// How much more than f32 a sum of products of two factors of a type may lose: tensor cores add products of `f8` with 13
/// bits of fraction, and cut off what is below.
pub(super) fn coarseness_of_products(factors: [DType; 2]) -> Option<f64> {
    let few = |d: &DType| d.narrow().is_some_and(|float| float.bits() == 8);
    factors.iter().all(few).then_some(f64::from(1u32 << 12))
}

/// Rounding an intermediate to 16 or 8 bits is off by this much more than rounding it to f32.
fn coarseness(dtype: DType) -> f64 {
    dtype.narrow().map_or(0.0, |float| float.roundoff() / Float::F32.roundoff())
}

/// Adds the rounding of an intermediate to a type of 16 or 8 bits.
fn intermediate(dtype: DType, (v, m): (f64, f64), root: bool) -> (f64, f64) {
    // Without infinities numbers are few: the subnormal ones lie as far apart as those of the least exponent.
    let (v, least) = match dtype.narrow() {
        Some(few) if !few.has_infinities() => (v.clamp(-few.max(), few.max()), few.min_positive()),
        _ => (v, 0.0),
    };
    if root || !v.is_finite() { (v, m) } else { (v, m + coarseness(dtype) * v.abs().max(least)) }
}

/// A result with its magnitude: none of what is infinite, unless even its sign is unknown, and no bound at all on a number whose
/// magnitude is beyond f64, such as a product of products of products.
fn known((v, m): (f64, f64)) -> (f64, f64) {
    match v.is_finite() {
        true => (v, if m.is_nan() { f64::INFINITY } else { m }),
        false => (v, if m == f64::INFINITY { m } else { 0.0 }),
    }
}

fn magnitude(x: f64) -> f64 {
    if x.is_finite() { x.abs() } else { 0.0 }
}

impl Semantics for Bounded {
    type E = (f64, f64);

    fn input(x: f64) -> (f64, f64) {
        (x, magnitude(x))
    }

    fn literal(x: f64, dtype: DType) -> (f64, f64) {
        Self::input(dtype.round_f64(x))
    }

    fn un(op: UnOp, dtype: DType, (v, m): (f64, f64), root: bool) -> (f64, f64) {
        let Some(real) = op.row().float.filter(|_| dtype.is_float()) else {
            return Self::input(Exact::un(op, dtype, v, root));
        };
        match (real.bounded)(v, m) {
            Magnitude::Exact(v, m) => (v, m),
            Magnitude::Rounded(v, m) => intermediate(dtype, known((v, m)), root),
        }
    }

    fn bin(op: BinOp, dtype: DType, a: (f64, f64), b: (f64, f64), root: bool) -> (f64, f64) {
        let Some(real) = op.row().float.filter(|_| dtype.is_float()) else {
            return Self::input(Exact::bin(op, dtype, a.0, b.0, root));
        };
        match (real.bounded)(a, b) {
            Magnitude::Exact(v, m) => (v, m),
            Magnitude::Rounded(v, m) => intermediate(dtype, known((v, m)), root),
        }
    }

    fn cmp(op: CmpOp, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
        (Exact::cmp(op, a.0, b.0), 0.0)
    }

    fn holds(condition: (f64, f64)) -> bool {
        condition.0 != 0.0
    }

    fn number(x: (f64, f64)) -> f64 {
        x.0
    }

    fn cast(from_type: DType, to: DType, x: (f64, f64), root: bool) -> (f64, f64) {
        match (from_type.float(), to.float()) {
            (Some(from), Some(to)) if to.holds(from) => x,
            (_, Some(_)) => intermediate(to, x, root),
            (_, None) => Self::input(to.cast_f64(from_type, x.0)),
        }
    }

    fn fma(dtype: DType, a: (f64, f64), b: (f64, f64), acc: (f64, f64)) -> (f64, f64) {
        if dtype.is_integer() {
            return Self::input(Exact::fma(dtype, a.0, b.0, acc.0));
        }
        let (v, m) = (acc.0 + a.0 * b.0, acc.1 + a.1 * b.1);
        intermediate(dtype, known((v, of_sum(v, m))), false)
    }

    fn coarse((v, m): (f64, f64), by: f64) -> (f64, f64) {
        (v, m * by)
    }
}
