//! Values of the lanes of a warp, as far as they follow from the launch: indices and truth values.

use super::cost::WARP;
use std::rc::Rc;
use tile_dsl::{
    dtype::DType,
    op::{BinOp, CmpOp, UnOp},
};

/// An integer of each lane.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lanes {
    /// The same in all of them.
    Same(i64),
    /// Each its own.
    Each(Rc<[i64; WARP]>),
}

/// A value of each lane.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// It follows from what tensors and scalars hold.
    Unknown,
    /// Integers.
    Int(Lanes),
    /// Truth values, a bit a lane.
    Bool(u32),
}

impl Lanes {
    pub fn each(of: impl FnMut(usize) -> i64) -> Lanes {
        Lanes::Each(Rc::new(std::array::from_fn(of)))
    }

    pub fn get(&self, lane: usize) -> i64 {
        match self {
            Lanes::Same(n) => *n,
            Lanes::Each(each) => each[lane],
        }
    }

    /// The integer that all lanes have, if it is known to be one.
    pub fn same(&self) -> Option<i64> {
        match self {
            Lanes::Same(n) => Some(*n),
            Lanes::Each(_) => None,
        }
    }

    /// How far these are from others, where that is the same in some lanes.
    pub fn apart(&self, other: &Lanes, lanes: u32) -> Option<i64> {
        let mut asking = (0..WARP).filter(|i| lanes >> i & 1 != 0).map(|i| self.get(i) - other.get(i));
        let first = asking.next()?;
        asking.all(|n| n == first).then_some(first)
    }

    /// Whether they are multiples of a number in some lanes.
    pub fn multiples_of(&self, n: i64, lanes: u32) -> bool {
        (0..WARP).filter(|i| lanes >> i & 1 != 0).all(|i| self.get(i) % n == 0)
    }

    pub fn map(&self, f: impl Fn(i64) -> i64) -> Lanes {
        match self {
            Lanes::Same(n) => Lanes::Same(f(*n)),
            Lanes::Each(each) => Lanes::each(|i| f(each[i])),
        }
    }

    fn with(&self, other: &Lanes, f: impl Fn(i64, i64) -> i64) -> Lanes {
        match (self, other) {
            (Lanes::Same(a), Lanes::Same(b)) => Lanes::Same(f(*a, *b)),
            _ => Lanes::each(|i| f(self.get(i), other.get(i))),
        }
    }

    fn compared(&self, other: &Lanes, f: impl Fn(i64, i64) -> bool) -> u32 {
        match (self, other) {
            (Lanes::Same(a), Lanes::Same(b)) => all(f(*a, *b)),
            _ => (0..WARP).map(|i| u32::from(f(self.get(i), other.get(i))) << i).sum(),
        }
    }
}

/// A truth value that all lanes have.
fn all(holds: bool) -> u32 {
    if holds { u32::MAX } else { 0 }
}

impl Value {
    pub fn same(n: i64) -> Value {
        Value::Int(Lanes::Same(n))
    }

    /// The integer that all lanes have, if it is known.
    pub fn alike(&self) -> Option<i64> {
        match self {
            Value::Int(lanes) => lanes.same(),
            _ => None,
        }
    }

    /// The values of `new` in some lanes, these in the others.
    pub fn merged(&self, new: Value, lanes: u32) -> Value {
        if lanes == u32::MAX || *self == new {
            return new;
        }
        match (self, &new) {
            (Value::Int(a), Value::Int(b)) => {
                Value::Int(Lanes::each(|i| if lanes >> i & 1 != 0 { b.get(i) } else { a.get(i) }))
            }
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(a & !lanes | b & lanes),
            _ => Value::Unknown,
        }
    }
}

pub(super) fn un(op: UnOp, a: &Value) -> Value {
    let row = op.row();
    match (a, row.int, row.truth) {
        (Value::Int(a), Some(int), _) => Value::Int(a.map(|n| DType::I32.wrap((int.value)(n)))),
        (Value::Bool(a), _, Some(f)) => Value::Bool(all(f(true)) & a | all(f(false)) & !a),
        _ => Value::Unknown,
    }
}

/// What an index has no value for stays 0: such lanes ask for nothing.
pub(super) fn bin(op: BinOp, a: &Value, b: &Value) -> Value {
    let row = op.row();
    match (a, b, row.int, row.truth) {
        (Value::Int(a), Value::Int(b), Some(int), _) => {
            Value::Int(a.with(b, |x, y| (int.checked)(x, y).unwrap_or(0)))
        }
        (Value::Bool(a), Value::Bool(b), _, Some(f)) => {
            let case = |x: bool, y: bool| all(f(x, y)) & (if x { *a } else { !a }) & if y { *b } else { !b };
            Value::Bool(case(true, true) | case(true, false) | case(false, true) | case(false, false))
        }
        // One side alone may decide.
        (Value::Bool(known), Value::Unknown, _, Some(f))
        | (Value::Unknown, Value::Bool(known), _, Some(f))
            if f(false, true) == f(false, false) && *known == 0 =>
        {
            Value::Bool(all(f(false, false)))
        }
        _ => Value::Unknown,
    }
}

pub(super) fn wrapping(op: BinOp, a: &Value, b: &Value) -> Value {
    match (a, b, op.row().int) {
        (Value::Int(a), Value::Int(b), Some(int)) => {
            Value::Int(a.with(b, |x, y| DType::I32.wrap((int.value)(x, y))))
        }
        _ => Value::Unknown,
    }
}

pub(super) fn cmp(op: CmpOp, a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Bool(a.compared(b, |x, y| op.holds(&x, &y))),
        (Value::Bool(a), Value::Bool(b)) => {
            let bit = |of: u32, i: usize| of >> i & 1 != 0;
            Value::Bool((0..WARP).map(|i| u32::from(op.holds(&bit(*a, i), &bit(*b, i))) << i).sum())
        }
        _ => Value::Unknown,
    }
}

pub(super) fn select(cond: &Value, a: Value, b: Value) -> Value {
    match cond {
        Value::Bool(lanes) => b.merged(a, *lanes),
        _ if a == b => a,
        _ => Value::Unknown,
    }
}

pub(super) fn cast(to: DType, a: Value) -> Value {
    match a {
        Value::Int(a) if to.is_integer() => Value::Int(a.map(|n| to.wrap(n))),
        Value::Bool(a) if to.is_integer() => Value::Int(Lanes::each(|i| i64::from(a >> i & 1))),
        _ => Value::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values_are_combined_by_lane() {
        let [a, b] = [Value::Bool(0b1100), Value::Bool(0b1010)];
        assert_eq!(bin(BinOp::And, &a, &b), Value::Bool(0b1000));
        assert_eq!(bin(BinOp::Or, &a, &b), Value::Bool(0b1110));
        assert_eq!(un(UnOp::Not, &a), Value::Bool(!0b1100));
        assert_eq!(bin(BinOp::And, &Value::Bool(0), &Value::Unknown), Value::Bool(0));
        assert_eq!(bin(BinOp::And, &a, &Value::Unknown), Value::Unknown);
    }

    #[test]
    fn lanes_are_merged() {
        let own = Value::Int(Lanes::each(|i| i as i64));
        let Value::Int(merged) = Value::same(7).merged(own, 0b10) else { panic!("integers") };
        assert_eq!([merged.get(0), merged.get(1)], [7, 1]);
        assert_eq!(cmp(CmpOp::Lt, &Value::Int(merged), &Value::same(7)), Value::Bool(0b10));
    }
}
