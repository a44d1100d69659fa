//! What collectives combine elements by.

use crate::element::{Element, Float};
use serde::{Deserialize, Serialize};
use std::fmt;
use tile_dsl::f8::f8;

/// How elements of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reduction {
    /// The sum. Simulators add in the order of the ranks: floats in f32, rounded once, and integers wrap.
    Sum,
    /// The greatest. Between simulators a NaN counts only where all are NaN.
    Max,
    /// The least; a NaN as for the greatest.
    Min,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
        })
    }
}

/// An [`Element`] that collectives can combine: floats and integers, no truth values.
///
/// Sealed: the set is what NCCL knows.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that a collective can combine",
    note = "those are f32, f16, bf16, f8, i32, u32, i8, u8 and i64"
)]
pub trait Reducible: Element {
    /// Combines the elements at each place, the first rank's first. All are as long as the first.
    #[doc(hidden)]
    fn combine(reduction: Reduction, ranks: &[Vec<Self>]) -> Vec<Self>;
}

/// The one of two that is kept, where both are numbers.
fn keeps<T: PartialOrd>(reduction: Reduction, best: T, x: T) -> bool {
    match reduction {
        Reduction::Max => x > best,
        _ => x < best,
    }
}

fn floats<T: Float>(reduction: Reduction, ranks: &[Vec<T>]) -> Vec<T> {
    let one = |n: usize| {
        let mut all = ranks.iter().map(|rank| rank[n].to_f64());
        T::from_f64(match reduction {
            Reduction::Sum => all.fold(-0.0f32, |sum, x| sum + x as f32).into(),
            _ => {
                let first = all.next().unwrap_or(f64::NAN);
                all.fold(first, |best, x| if best.is_nan() || keeps(reduction, best, x) { x } else { best })
            }
        })
    };
    (0..ranks.first().map_or(0, Vec::len)).map(one).collect()
}

macro_rules! reducible {
    (float: $($float:ty),*; int: $($int:ty),*) => {
        $(impl Reducible for $float {
            fn combine(reduction: Reduction, ranks: &[Vec<Self>]) -> Vec<Self> {
                floats(reduction, ranks)
            }
        })*
        $(impl Reducible for $int {
            fn combine(reduction: Reduction, ranks: &[Vec<Self>]) -> Vec<Self> {
                let two = |a: Self, b: Self| match reduction {
                    Reduction::Sum => a.wrapping_add(b),
                    _ => if keeps(reduction, a, b) { b } else { a },
                };
                let one = |n: usize| ranks.iter().map(|rank| rank[n]).reduce(two).unwrap_or_default();
                (0..ranks.first().map_or(0, Vec::len)).map(one).collect()
            }
        })*
    };
}

reducible!(float: f32, half::f16, half::bf16, f8; int: i32, u32, i8, u8, i64);

/// Combines bytes of elements.
pub(super) type Combine = fn(Reduction, &[Vec<u8>]) -> Vec<u8>;

/// [`Reducible::combine`] on bytes.
pub(super) fn combine<T: Reducible>(reduction: Reduction, ranks: &[Vec<u8>]) -> Vec<u8> {
    let ranks: Vec<Vec<T>> = ranks.iter().map(|bytes| T::from_bytes(bytes)).collect();
    T::bytes_of(&T::combine(reduction, &ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beat_what_is_none() {
        let all = [vec![f32::NAN, 1.0, -0.0], vec![2.0, f32::NAN, 0.0], vec![1.0, 3.0, -0.0]];
        assert_eq!(f32::combine(Reduction::Max, &all), [2.0, 3.0, 0.0]);
        assert_eq!(f32::combine(Reduction::Min, &all), [1.0, 1.0, 0.0]);
        assert!(f32::combine(Reduction::Max, &all)[2].is_sign_negative(), "the first of equals");
        assert!(f32::combine(Reduction::Sum, &all)[0].is_nan());
        assert!(f32::combine(Reduction::Min, &[vec![f32::NAN], vec![f32::NAN]])[0].is_nan());
        assert!(f32::combine(Reduction::Sum, &[]).is_empty());
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(i8::combine(Reduction::Sum, &[vec![127], vec![1]]), [-128]);
        assert_eq!(i64::combine(Reduction::Min, &[vec![3], vec![i64::MIN], vec![0]]), [i64::MIN]);
        assert_eq!(u32::combine(Reduction::Max, &[vec![3], vec![u32::MAX]]), [u32::MAX]);
    }
}
