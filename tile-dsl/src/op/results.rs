//! What is known of the results of an operator before they are computed: their range, and what they are multiples of.

/// Results of an operator, for tests that know beforehand which results are exact.
#[derive(Clone, Copy)]
pub struct Results {
    /// Their range over two ranges of operands, each from the least to the greatest. A divisor is positive.
    pub range: fn([f64; 2], [f64; 2]) -> [f64; 2],
    /// What they are multiples of.
    pub unit: Unit,
}

/// What results are multiples of, if the operands are multiples of powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The result is one of the operands.
    Chosen,
    /// The smaller of the operands' powers.
    Smaller,
    /// The product of the operands' powers.
    Product,
    /// One.
    Whole,
    /// Nothing: a quotient is rounded.
    Rounded,
}

fn products([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    let corners = [a * c, a * d, b * c, b * d];
    corners.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[lo, hi], x| [lo.min(*x), hi.max(*x)])
}

fn largest([lo, hi]: [f64; 2]) -> f64 {
    lo.abs().max(hi.abs())
}

pub(super) const SUM: Results = Results { range: |a, b| [a[0] + b[0], a[1] + b[1]], unit: Unit::Smaller };
pub(super) const DIFFERENCE: Results =
    Results { range: |a, b| [a[0] - b[1], a[1] - b[0]], unit: Unit::Smaller };
pub(super) const PRODUCT: Results = Results { range: products, unit: Unit::Product };
pub(super) const LARGER: Results =
    Results { range: |a, b| [a[0].max(b[0]), a[1].max(b[1])], unit: Unit::Chosen };
pub(super) const SMALLER: Results =
    Results { range: |a, b| [a[0].min(b[0]), a[1].min(b[1])], unit: Unit::Chosen };
/// Numbers that have no more bits than the operands: none is negative where no operand is.
pub(super) const BITS: Results = Results {
    range: |a, b| {
        let most = largest(a).max(largest(b)).max(1.0) * 2.0;
        if a[0] >= 0.0 && b[0] >= 0.0 { [0.0, most] } else { [-most, most] }
    },
    unit: Unit::Whole,
};
/// Bits that both have: no more than an operand that is not negative.
pub(super) const COMMON_BITS: Results = Results {
    range: |a, b| match [a, b].iter().filter(|x| x[0] >= 0.0).map(|x| x[1]).reduce(f64::min) {
        Some(most) => [0.0, most],
        None => (BITS.range)(a, b),
    },
    unit: Unit::Whole,
};
pub(super) const SHIFTED_LEFT: Results = Results {
    range: |[lo, hi], [_, most]| {
        let factor = most.clamp(0.0, 32.0).exp2();
        [(lo * factor).min(0.0), (hi * factor).max(0.0)]
    },
    unit: Unit::Whole,
};
pub(super) const SHIFTED_RIGHT: Results =
    Results { range: |[lo, hi], _| [lo.min(0.0), hi.max(0.0)], unit: Unit::Whole };
pub(super) const QUOTIENT: Results = Results {
    range: |a, b| {
        let most = largest(a) / b[0];
        [-most, most]
    },
    unit: Unit::Rounded,
};
pub(super) const WHOLE_QUOTIENT: Results = Results {
    range: |a, b| {
        let most = largest(a).max(largest(b)).max(1.0);
        [-most, most]
    },
    unit: Unit::Whole,
};
