//! How elements of several ranks become one.

use serde::{Deserialize, Serialize};
use std::fmt;

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

/// The one of two that is kept, where both are numbers.
fn keeps<T: PartialOrd>(reduction: Reduction, best: T, x: T) -> bool {
    match reduction {
        Reduction::Max => x > best,
        Reduction::Sum | Reduction::Min => x < best,
    }
}

/// A float from those of the ranks, in their order; nothing where there are none.
pub(crate) fn float(reduction: Reduction, ranks: impl Iterator<Item = f64>) -> Option<f64> {
    let mut some = ranks.peekable();
    some.peek()?;
    match reduction {
        Reduction::Sum => Some(some.fold(-0.0f32, |sum, x| sum + x as f32).into()),
        Reduction::Max | Reduction::Min => {
            some.reduce(|best, x| if best.is_nan() || keeps(reduction, best, x) { x } else { best })
        }
    }
}

/// An integer from those of the ranks; nothing where there are none.
pub(crate) fn integer<T: PartialOrd + Copy>(
    reduction: Reduction,
    ranks: impl Iterator<Item = T>,
    wrapping_add: fn(T, T) -> T,
) -> Option<T> {
    ranks.reduce(|best, x| match reduction {
        Reduction::Sum => wrapping_add(best, x),
        Reduction::Max | Reduction::Min => {
            if keeps(reduction, best, x) {
                x
            } else {
                best
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Reducible;

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
