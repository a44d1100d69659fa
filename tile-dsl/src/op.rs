//! Scalar operators shared by the three IRs. Each is a row of a table, and whoever asks about an operator asks its row.

pub mod binary;
pub mod compare;
pub mod functions;
pub mod reduce;
pub mod unary;

pub use binary::{BinOp, maximum, minimum};
pub use compare::CmpOp;
pub use reduce::RedOp;
pub use unary::UnOp;

/// The nearest number of 11 significant bits, of two the one away from zero: what tensor cores take of an `f32` (PTX
/// `cvt.rna.tf32.f32`). Numbers too large become infinite; NaN stays NaN. Every `f16` and `bf16` is such a number.
pub fn tf32(x: f32) -> f32 {
    const CUT: u32 = 13;
    if !x.is_finite() {
        return x;
    }
    // The carry goes on into the exponent, as it should.
    f32::from_bits((x.to_bits() + (1 << (CUT - 1))) >> CUT << CUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf32_rounds_to_nearest_and_ties_away_from_zero() {
        let half = 1.0 / 2048.0;
        for (x, y) in [
            (0.0, 0.0),
            (1.0 + half, 1.0 + 2.0 * half),
            (-1.0 - half, -1.0 - 2.0 * half),
            (1.0 + half - f32::EPSILON, 1.0),
            (1.0 + 3.0 * half, 1.0 + 4.0 * half),
            (2.0 - f32::EPSILON, 2.0),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (f32::from_bits(0x1000), f32::from_bits(0x2000)),
            (f32::from_bits(0x0fff), 0.0),
        ] {
            assert_eq!(tf32(x).to_bits(), y.to_bits(), "{x}");
        }
        assert_eq!(tf32(-0.0).to_bits(), (-0.0f32).to_bits());
        for nan in [0x7fff_ffff, 0x7f80_0001, 0xffc0_0000] {
            assert!(tf32(f32::from_bits(nan)).is_nan());
        }
    }

    #[test]
    fn tf32_leaves_sixteen_bit_numbers_as_they_are() {
        for bits in 0..=u16::MAX {
            for x in [half::f16::from_bits(bits).to_f32(), half::bf16::from_bits(bits).to_f32()] {
                assert!(x.is_nan() || tf32(x).to_bits() == x.to_bits(), "{x}");
            }
        }
    }
}
