//! `f8`: a number of eight bits.
//!
//! OCP 8-bit Floating Point Specification 1.0, E4M3: a sign, four bits of exponent with bias 7, three of fraction; subnormal
//! numbers, a positive and a negative zero, no infinities, and one pattern without its sign that is no number.

use crate::dtype::Float;
use std::fmt;

/// E4M3, an 8-bit float: 4 significant bits, ±448 at most, no infinities.
///
/// What is too large to be one, infinities among them, becomes ±448, as PTX's `cvt.rn.satfinite.e4m3x2.f32` has it.
#[allow(non_camel_case_types, reason = "named as `f32` and `f16` are")]
#[derive(Clone, Copy, Default)]
pub struct f8(u8);

impl f8 {
    /// 448.
    pub const MAX: f8 = f8(0x7e);
    /// −448.
    pub const MIN: f8 = f8(0xfe);
    /// 2⁻⁶, the smallest positive number with all significant bits.
    pub const MIN_POSITIVE: f8 = f8(0x08);
    /// 2⁻⁹, the smallest positive number.
    pub const MIN_POSITIVE_SUBNORMAL: f8 = f8(0x01);
    /// No number.
    pub const NAN: f8 = f8(0x7f);
    /// One.
    pub const ONE: f8 = f8(0x38);
    /// Zero.
    pub const ZERO: f8 = f8(0);

    /// The number with these bits.
    pub const fn from_bits(bits: u8) -> f8 {
        f8(bits)
    }

    /// Its bits.
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// Its byte.
    pub const fn to_le_bytes(self) -> [u8; 1] {
        [self.0]
    }

    /// The number in a byte.
    pub const fn from_le_bytes([bits]: [u8; 1]) -> f8 {
        f8(bits)
    }

    /// Rounds to nearest, ties to even; beyond ±448 to ±448. No number becomes [`f8::NAN`], whatever its sign.
    pub fn from_f32(x: f32) -> f8 {
        f8::from_f64(x.into())
    }

    /// As [`f8::from_f32`], rounded once.
    pub fn from_f64(x: f64) -> f8 {
        f8(Float::E4M3.encode(x) as u8)
    }

    /// Exact.
    pub fn to_f32(self) -> f32 {
        self.to_f64() as f32
    }

    /// Exact.
    pub fn to_f64(self) -> f64 {
        Float::E4M3.decode(self.0.into())
    }

    /// Whether it is no number.
    pub const fn is_nan(self) -> bool {
        self.0 & 0x7f == 0x7f
    }
}

/// As numbers are: zeros are equal, and what is no number equals nothing.
impl PartialEq for f8 {
    fn eq(&self, other: &f8) -> bool {
        self.to_f32() == other.to_f32()
    }
}

impl PartialOrd for f8 {
    fn partial_cmp(&self, other: &f8) -> Option<std::cmp::Ordering> {
        self.to_f32().partial_cmp(&other.to_f32())
    }
}

impl From<f8> for f32 {
    fn from(x: f8) -> f32 {
        x.to_f32()
    }
}

impl From<f8> for f64 {
    fn from(x: f8) -> f64 {
        x.to_f64()
    }
}

impl fmt::Debug for f8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_f32(), f)
    }
}

impl fmt::Display for f8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_f32(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The finite numbers that are not negative, ascending with their bits.
    fn numbers() -> Vec<f32> {
        (0..=0x7e).map(|bits| f8(bits).to_f32()).collect()
    }

    #[test]
    fn values_are_those_of_the_specification() {
        let of = |bits: u8| f8(bits).to_f32();
        assert_eq!((of(0x01), of(0x07), of(0x08)), (2f32.powi(-9), 0.875 * 2f32.powi(-6), 2f32.powi(-6)));
        assert_eq!((of(0x38), of(0x3f), of(0x40), of(0x7e)), (1.0, 1.875, 2.0, 448.0));
        assert_eq!((of(0x77), of(0x78), of(0xb8)), (240.0, 256.0, -1.0));
        assert_eq!(of(0x80).to_bits(), (-0f32).to_bits());
        assert_eq!((0..=255).filter(|bits| f8(*bits).is_nan()).collect::<Vec<u8>>(), [0x7f, 0xff]);
        assert!(numbers().is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn all_of_them_round_to_themselves() {
        for bits in 0..=255u8 {
            let x = f8(bits);
            let wanted = if x.is_nan() { 0x7f } else { bits };
            assert_eq!(f8::from_f32(x.to_f32()).to_bits(), wanted, "{bits:#x}");
            assert_eq!(f8::from_f64(x.to_f64()).to_bits(), wanted, "{bits:#x}");
            assert_eq!(f8::from_le_bytes(x.to_le_bytes()).to_bits(), bits);
        }
    }

    #[test]
    fn ties_go_to_the_even_one_and_all_else_to_the_nearer() {
        let numbers = numbers();
        for (bits, pair) in (0u8..).zip(numbers.windows(2)) {
            let middle = (pair[0] + pair[1]) / 2.0;
            let even = bits + (bits & 1);
            for (x, wanted) in [(middle, even), (middle.next_down(), bits), (middle.next_up(), bits + 1)] {
                assert_eq!(f8::from_f32(x).to_bits(), wanted, "{x}");
                assert_eq!(f8::from_f32(-x).to_bits(), wanted | 0x80, "{x}");
            }
            // What f32 cannot hold is rounded once, too.
            assert_eq!(f8::from_f64(f64::from(middle).next_up()).to_bits(), bits + 1);
        }
    }

    #[test]
    fn what_is_too_large_becomes_the_largest() {
        for x in [449.0, 463.9, 464.0, 480.0, 1e30, f32::MAX, f32::INFINITY] {
            assert_eq!((f8::from_f32(x).to_bits(), f8::from_f32(-x).to_bits()), (0x7e, 0xfe), "{x}");
        }
        assert_eq!(f8::from_f32(f32::from_bits(1)).to_bits(), 0);
        assert_eq!(f8::from_f32(-f32::from_bits(1)).to_bits(), 0x80);
        assert_eq!((f8::from_f32(f32::NAN).to_bits(), f8::from_f32(-f32::NAN).to_bits()), (0x7f, 0x7f));
    }

    #[test]
    fn they_compare_as_numbers() {
        assert!(f8(0) == f8(0x80) && f8::NAN != f8::NAN && f8::ONE < f8::MAX && f8::MIN < f8::ZERO);
        assert_eq!((format!("{:?}", f8::ONE), format!("{}", f8::MIN)), ("1.0".into(), "-448".into()));
        assert_eq!(f8::default().to_bits(), 0);
    }
}
