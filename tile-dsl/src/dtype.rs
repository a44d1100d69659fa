//! Element types and the integer types of indices.

use crate::f8::f8;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Type of an element of a tensor or of a tile value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// E4M3, 8 bits: see [`f8`].
    F8,
    /// Signed 32-bit integer: index values.
    I32,
    /// Result of a comparison. Never stored in a tensor.
    Bool,
}

impl DType {
    /// Size in bytes in memory (`Bool` lives in predicates only and counts 1).
    pub const fn bytes(self) -> u32 {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::F8 | DType::Bool => 1,
        }
    }

    /// Name as written in Rust source: `f32`, `f16`, `bf16`, `f8`, `i32`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F8 => "f8",
            DType::I32 => "i32",
            DType::Bool => "bool",
        }
    }

    /// Inverse of [`DType::name`].
    pub fn from_name(name: &str) -> Option<DType> {
        let all = [DType::F32, DType::F16, DType::BF16, DType::F8, DType::I32, DType::Bool];
        all.into_iter().find(|d| d.name() == name)
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F8)
    }

    /// Rounds `x` to this type (round to nearest, ties to even) and widens it again.
    ///
    /// Arithmetic of floats of 16 and 8 bits is defined as: widen to f32, compute, round. For
    /// `+ - * / sqrt` this equals arithmetic in the narrow type, as 24 ≥ 2·11 + 2 (Figueroa 1995).
    pub fn round(self, x: f32) -> f32 {
        match self {
            DType::F16 => half::f16::from_f32(x).to_f32(),
            DType::BF16 => half::bf16::from_f32(x).to_f32(),
            DType::F8 => f8::from_f32(x).to_f32(),
            DType::F32 | DType::I32 | DType::Bool => x,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
