//! Comparisons: an operator is a row of the table.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// What is known of a comparison.
#[derive(Clone, Copy)]
pub struct Comparison {
    /// Name in the printed IRs, which is what a kernel writes.
    pub name: &'static str,
    /// Whether it holds for operands in this order; `None`: one is NaN.
    pub holds: fn(Option<Ordering>) -> bool,
    /// Whether it needs an order, which truth values do not have.
    pub ordered: bool,
}

macro_rules! operators {
    ($($(#[$doc:meta])* $op:ident => $name:literal $ordered:literal $holds:expr;)*) => {
        /// Comparisons; any comparison with a NaN is false, except `Ne`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CmpOp {
            $($(#[$doc])* $op,)*
        }

        impl CmpOp {
            /// Every comparison.
            pub const ALL: &[CmpOp] = &[$(CmpOp::$op),*];

            /// Its row.
            pub const fn row(self) -> &'static Comparison {
                match self {
                    $(CmpOp::$op => const { &Comparison { name: $name, ordered: $ordered, holds: $holds } },)*
                }
            }
        }
    };
}

operators! {
    /// `a == b`.
    Eq => "==" false |order| matches!(order, Some(Ordering::Equal));
    /// `a != b`.
    Ne => "!=" false |order| !matches!(order, Some(Ordering::Equal));
    /// `a < b`.
    Lt => "<" true |order| matches!(order, Some(Ordering::Less));
    /// `a <= b`.
    Le => "<=" true |order| matches!(order, Some(Ordering::Less | Ordering::Equal));
    /// `a > b`.
    Gt => ">" true |order| matches!(order, Some(Ordering::Greater));
    /// `a >= b`.
    Ge => ">=" true |order| matches!(order, Some(Ordering::Greater | Ordering::Equal));
}

impl CmpOp {
    /// Name in the printed IRs.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Inverse of [`CmpOp::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// The result for two operands.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        (self.row().holds)(a.partial_cmp(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_those_of_rust() {
        let numbers = [-1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
        for (a, b) in numbers.iter().flat_map(|a| numbers.iter().map(move |b| (a, b))) {
            let found: Vec<bool> = CmpOp::ALL.iter().map(|op| op.holds(a, b)).collect();
            assert_eq!(found, [a == b, a != b, a < b, a <= b, a > b, a >= b], "{a} {b}");
        }
    }
}
