//! Logits of the model beside those of the reference.

use tilewright::{DType, Float, verify::half_ulp};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The greatest error of a logit, in parts of what it may be.
    pub worst: f64,
    /// Whether no error is greater than that, and no logit is missing.
    pub verified: bool,
}

/// Compares rows of logits. A logit may be off by so much of the root mean square of its row:
///
/// `8 · √(4 + 12·layers)` roundings of the type, as that many values in a row are rounded on the way, each by up to one rounding, and errors
/// that know nothing of each other add up by their squares. `f32` has sums of many terms beside, and gets twice as much.
///
/// Each device more rounds its part of two products in a layer, and their sums with it: `4·layers` values beside.
pub fn judge<T: Float>(layers: usize, devices: usize, found: &[Vec<T>], exact: &[Vec<f64>]) -> Verdict {
    let parts = limit::<T>(layers, devices);
    let mut worst = if found.len() == exact.len() { 0.0f64 } else { f64::INFINITY };
    for (found, exact) in found.iter().zip(exact) {
        let size = (exact.iter().map(|x| x * x).sum::<f64>() / exact.len() as f64).sqrt();
        let off = found.iter().zip(exact).map(|(x, y)| (x.to_f64() - y).abs() / (parts * size));
        // A NaN is greater than anything.
        worst = off.fold(worst, |worst, x| if x <= worst { worst } else { x });
    }
    Verdict { worst, verified: worst <= 1.0 }
}

/// What a logit may be off by, in parts of the root mean square of its row.
pub fn limit<T: Float>(layers: usize, devices: usize) -> f64 {
    let roundings = if T::DTYPE == DType::F32 { 16.0 } else { 8.0 };
    let values = 4 + (12 + 4 * (devices - 1)) * layers;
    roundings * (values as f64).sqrt() * half_ulp(T::DTYPE, 1.0)
}
