//! Scalar operators shared by the three IRs. Each is a row of a table, and whoever asks about an operator asks its row.

pub mod binary;
pub mod compare;
pub mod functions;
pub mod random;
pub mod reduce;
mod results;
pub mod unary;

pub use binary::{BinOp, maximum, minimum};
pub use compare::CmpOp;
pub use reduce::RedOp;
pub use unary::{Makes, UnOp};

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
