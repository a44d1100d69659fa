//! Arithmetic of the interpreter, all threads at once: f32 in f32, 16-bit floats widened, computed and
//! rounded. Lanes that are not active hold leftovers; faults in them do not count.

use crate::{
    dtype::{DType, Kind},
    op::{BinOp, CmpOp, Makes, RedOp, UnOp},
};

/// One value a thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column {
    /// Floats of a type, widened.
    Float(Vec<f32>, DType),
    /// Integers of a type.
    Int(Vec<i64>, DType),
    /// `bool`.
    Bool(Vec<bool>),
}

/// A fault: the thread, and what happened.
pub(super) type Fault = (usize, String);
type Eval = Result<Column, Fault>;

impl Column {
    /// Elements of a type.
    pub fn elements(values: Vec<f32>, dtype: DType) -> Column {
        match dtype.format().kind {
            Kind::Float(_) => Column::Float(rounded(values, dtype), dtype),
            Kind::Int { .. } => {
                Column::Int(values.iter().map(|x| dtype.round_f64((*x).into()) as i64).collect(), dtype)
            }
            Kind::Bool => Column::Bool(values.iter().map(|x| *x != 0.0).collect()),
        }
    }

    pub fn ints(&self) -> Result<&[i64], Fault> {
        match self {
            Column::Int(v, _) => Ok(v),
            _ => Err((0, "another type where an integer is expected".into())),
        }
    }

    pub fn bools(&self) -> Result<&[bool], Fault> {
        match self {
            Column::Bool(v) => Ok(v),
            _ => Err((0, "another type where a bool is expected".into())),
        }
    }

    /// As stored in a tensor.
    pub fn to_f32(&self) -> Result<Vec<f32>, Fault> {
        match self {
            Column::Float(v, _) => Ok(v.clone()),
            Column::Int(v, _) => Ok(v.iter().map(|n| *n as f32).collect()),
            Column::Bool(v) => Ok(v.iter().map(|b| u8::from(*b).into()).collect()),
        }
    }

    /// As numbers that have every float and every integer of 32 bits.
    pub fn to_f64(&self) -> Result<Vec<f64>, Fault> {
        match self {
            Column::Int(v, _) => Ok(v.iter().map(|n| *n as f64).collect()),
            _ => Ok(self.to_f32()?.into_iter().map(f64::from).collect()),
        }
    }

    /// Sums in a type: rounded once, or wrapped around.
    pub fn sums(values: Vec<f64>, dtype: DType) -> Column {
        match dtype.is_integer() {
            true => Column::Int(values.into_iter().map(|x| dtype.wrap(x as i64)).collect(), dtype),
            false => Column::elements(values.into_iter().map(|x| x as f32).collect(), dtype),
        }
    }

    /// The values of `new` where `mask` is true, these elsewhere.
    pub fn merged(&self, new: &Column, mask: &[bool]) -> Column {
        fn pick<T: Copy>(old: &[T], new: &[T], mask: &[bool]) -> Vec<T> {
            mask.iter().enumerate().map(|(t, m)| if *m { new[t] } else { old[t] }).collect()
        }
        match (self, new) {
            (Column::Float(a, _), Column::Float(b, dtype)) => Column::Float(pick(a, b, mask), *dtype),
            (Column::Int(a, _), Column::Int(b, dtype)) => Column::Int(pick(a, b, mask), *dtype),
            (Column::Bool(a), Column::Bool(b)) => Column::Bool(pick(a, b, mask)),
            _ => new.clone(),
        }
    }

    /// The value of lane `from(t)` in each lane `t`.
    pub fn permuted(&self, from: impl Fn(usize) -> usize) -> Column {
        fn pick<T: Copy>(v: &[T], from: impl Fn(usize) -> usize) -> Vec<T> {
            (0..v.len()).map(|t| v[from(t)]).collect()
        }
        match self {
            Column::Float(v, dtype) => Column::Float(pick(v, from), *dtype),
            Column::Int(v, dtype) => Column::Int(pick(v, from), *dtype),
            Column::Bool(v) => Column::Bool(pick(v, from)),
        }
    }
}

fn rounded(mut values: Vec<f32>, dtype: DType) -> Vec<f32> {
    if let Some(float) = dtype.narrow() {
        values.iter_mut().for_each(|x| *x = float.round((*x).into()) as f32);
    }
    values
}

fn floats(values: Vec<f32>, dtype: DType) -> Eval {
    Ok(Column::Float(rounded(values, dtype), dtype))
}

pub(super) fn un(op: UnOp, a: &Column) -> Eval {
    let row = op.row();
    match (a, row.makes) {
        (Column::Float(v, _), Some(Makes::Key(key))) => {
            return Ok(Column::Int(v.iter().map(|x| key(*x).into()).collect(), DType::I32));
        }
        (Column::Int(v, DType::U32), Some(Makes::Fraction(value))) => {
            return Ok(Column::Float(v.iter().map(|n| value(*n as u32)).collect(), DType::F32));
        }
        _ => {}
    }
    match (a, row.float, row.int, row.truth) {
        (Column::Float(v, dtype), Some(real), ..) => {
            floats(v.iter().map(|x| (real.value)(*x)).collect(), *dtype)
        }
        (Column::Int(v, dtype), _, Some(int), _) => {
            Ok(Column::Int(v.iter().map(|n| dtype.wrap((int.value)(*n))).collect(), *dtype))
        }
        (Column::Bool(v), .., Some(f)) => Ok(Column::Bool(v.iter().map(|b| f(*b)).collect())),
        _ => Err((0, format!("{} of another type", op.name()))),
    }
}

pub(super) fn bin(op: BinOp, a: &Column, b: &Column, mask: &[bool]) -> Eval {
    let row = op.row();
    match (a, b, row.float, row.int, row.truth) {
        (Column::Float(a, dtype), Column::Float(b, _), Some(real), ..) => {
            floats(a.iter().zip(b).map(|(x, y)| (real.value)(*x, *y)).collect(), *dtype)
        }
        (Column::Int(a, dtype), Column::Int(b, _), _, Some(int), _) => {
            let mut out = Vec::with_capacity(a.len());
            for (t, (x, y)) in a.iter().zip(b).enumerate() {
                // The lowering promises that no index wraps.
                match (int.checked)(*x, *y) {
                    Some(z) if z == dtype.wrap(z) => out.push(z),
                    _ if !mask[t] => out.push(0),
                    _ => return Err((t, format!("{x} {} {y} overflows", op.name()))),
                }
            }
            Ok(Column::Int(out, *dtype))
        }
        (Column::Bool(a), Column::Bool(b), .., Some(f)) => {
            Ok(Column::Bool(a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect()))
        }
        _ => Err((0, format!("{} of operands of another type", op.name()))),
    }
}

/// Arithmetic of the kernel's integers, defined for all of them.
pub(super) fn wrapping(op: BinOp, a: &Column, b: &Column) -> Eval {
    let wrong = || (0, format!("wrapping {}", op.name()));
    let (Column::Int(a, dtype), Column::Int(b, _)) = (a, b) else {
        return Err(wrong());
    };
    let results = a.iter().zip(b).map(|(x, y)| op.of_integers(*dtype, *x, *y));
    Ok(Column::Int(results.collect::<Option<_>>().ok_or_else(wrong)?, *dtype))
}

pub(super) fn fma(a: &Column, b: &Column, c: &Column) -> Eval {
    match (a, b, c) {
        (Column::Float(a, dtype), Column::Float(b, _), Column::Float(c, _)) => {
            floats(a.iter().zip(b).zip(c).map(|((a, b), c)| a.mul_add(*b, *c)).collect(), *dtype)
        }
        _ => Err((0, "fma of something else than floats".into())),
    }
}

pub(super) fn cmp(op: CmpOp, a: &Column, b: &Column) -> Eval {
    fn test<T: PartialOrd>(op: CmpOp, a: &[T], b: &[T]) -> Eval {
        Ok(Column::Bool(a.iter().zip(b).map(|(x, y)| op.holds(x, y)).collect()))
    }
    match (a, b) {
        (Column::Float(a, _), Column::Float(b, _)) => test(op, a, b),
        (Column::Int(a, _), Column::Int(b, _)) => test(op, a, b),
        (Column::Bool(a), Column::Bool(b)) => test(op, a, b),
        _ => Err((0, format!("{} of operands of another type", op.name()))),
    }
}

pub(super) fn cast(to: DType, a: &Column) -> Eval {
    match (to.format().kind, a) {
        (Kind::Int { .. }, Column::Int(v, _)) => Ok(Column::Int(v.iter().map(|n| to.wrap(*n)).collect(), to)),
        (Kind::Int { .. }, Column::Float(v, _)) => {
            Ok(Column::Int(v.iter().map(|x| to.round_f64((*x).into()) as i64).collect(), to))
        }
        (Kind::Int { .. }, Column::Bool(v)) => Ok(Column::Int(v.iter().map(|b| i64::from(*b)).collect(), to)),
        (Kind::Float(_), Column::Float(v, _)) => floats(v.clone(), to),
        (Kind::Float(_), Column::Int(v, _)) => {
            Ok(Column::Float(v.iter().map(|n| to.round_f64(*n as f64) as f32).collect(), to))
        }
        (Kind::Float(_), Column::Bool(v)) => {
            Ok(Column::Float(v.iter().map(|b| f32::from(u8::from(*b))).collect(), to))
        }
        (Kind::Bool, Column::Bool(v)) => Ok(Column::Bool(v.clone())),
        (Kind::Bool, _) => Err((0, "a number cast to a truth value".into())),
    }
}

/// An element of a tensor combined with another one.
pub(super) fn combined(op: RedOp, dtype: DType, a: f32, b: f32) -> f32 {
    match (op.combine().row().float, dtype.is_integer()) {
        (_, true) => op.combine().of_integers(dtype, a as i64, b as i64).unwrap_or(0) as f32,
        (Some(real), false) => (real.value)(a, b),
        (None, false) => f32::NAN,
    }
}
