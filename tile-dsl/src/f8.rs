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
