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
    ($($(#[doc = $doc:literal])* $op:ident => $name:literal $ordered:literal $holds:expr;)*) => {
        /// Comparisons; any comparison with a NaN is false, except `Ne`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CmpOp {
            $($(#[doc = $doc])* $op,)*
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

            /// Its card, for the reference of operations.
            pub const fn card(self) -> &'static str {
                match self {
                    $(CmpOp::$op => concat!($($doc, "\n"),*),)*
                }
            }
        }
    };
}

operators! {
    /// `a == b`: true where two elements are equal. NaN equals nothing, and −0 equals +0.
    ///
    /// ```text
    /// select(a == b, 1.0, 0.0)
    /// ```
    /// - Requires: two elements of one type, numbers or bools.
    /// - Costs: an instruction that sets a predicate.
    /// - See also: `ne`, `select`.
    Eq => "==" false |order| matches!(order, Some(Ordering::Equal));
    /// `a != b`: true where two elements differ. NaN differs from everything, also from itself. Of bools it is the exclusive or.
    ///
    /// ```text
    /// select(a != a, 0.0, a)
    /// ```
    /// - Requires: two elements of one type, numbers or bools.
    /// - Costs: an instruction that sets a predicate.
    /// - See also: `eq`, `select`.
    Ne => "!=" false |order| !matches!(order, Some(Ordering::Equal));
    /// `a < b`: true where the first element is smaller. It is false where one is NaN.
    ///
    /// ```text
    /// select(a < b, a, b)
    /// ```
    /// - Requires: two numbers of one type. Bools have no order.
    /// - Costs: an instruction that sets a predicate.
    /// - See also: `le`, `gt`, `select`.
    Lt => "<" true |order| matches!(order, Some(Ordering::Less));
    /// `a <= b`: true where the first element is no larger. It is false where one is NaN.
    ///
    /// ```text
    /// select(j <= i, a, f32::NEG_INFINITY)
    /// ```
    /// - Requires: two numbers of one type. Bools have no order.
    /// - Costs: an instruction that sets a predicate.
    /// - See also: `lt`, `ge`, `select`.
    Le => "<=" true |order| matches!(order, Some(Ordering::Less | Ordering::Equal));
    /// `a > b`: true where the first element is larger. It is false where one is NaN.
    ///
    /// ```text
    /// select(a > 0.0, a, 0.0)
    /// ```
    /// - Requires: two numbers of one type. Bools have no order.
    /// - Costs: an instruction that sets a predicate.
    /// - See also: `ge`, `lt`, `select`.
    Gt => ">" true |order| matches!(order, Some(Ordering::Greater));
    /// `a >= b`: true where the first element is no smaller. It is false where one is NaN.
    ///
    /// ```text
    /// select(a >= 0.0, a, 0.1 * a)
    /// ```
    /// - Requires: two numbers of one type. Bools have no order.
    /// - Costs: an instruction that sets a predicate.
    /// - See also: `gt`, `le`, `select`.
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
