//! Is y = relu(x·w₁ + b)·w₂, up to the rounding of sums, of the hidden layer and of the parts?
//!
//! A sum of K products in f32 may be off by γ·(K+1)·u·Σ|aᵢ·bᵢ|, γ as in `examples/matmul/verify.rs`; each value that is stored
//! by half a unit in the last place of its type. What the hidden layer is off by goes on through |w₂|. Each device's part is
//! rounded, and so may each partial sum of the all-reduce be; no partial sum is greater than the sum of magnitudes.

use super::layers::Layers;
use rayon::prelude::*;
use tilewright::{
    Float,
    verify::{Comparison, U, half_ulp},
};

/// Rows that are compared, spread over the batch.
const ROWS: usize = 24;

/// The criterion, in words.
pub fn criterion<T: Float>() -> String {
    format!("|y − ref| ≤ rounding of both sums in f32, of the hidden layer and of the parts in {}", T::DTYPE)
}

/// What sums of `k` products in f32 may be off by, of the sum of magnitudes.
fn accumulation(k: usize) -> f64 {
    let gamma = (4.0 / ((k + 1) as f64).sqrt()).min(1.0);
    gamma * (k + 1) as f64 * U
}

/// Compares each device's result with f64.
pub fn compare<T: Float>(layers: &Layers<T>, results: &[Vec<T>], devices: usize) -> Comparison {
    let [m, n, hidden] = layers.sizes;
    let rows: Vec<usize> = (0..m).step_by((m / ROWS).max(1)).collect();
    let row = |&i: &usize| {
        let x: Vec<f64> = layers.x[i * n..(i + 1) * n].iter().map(|x| x.to_f64()).collect();
        let mut sums: Vec<(f64, f64)> = layers.bias.iter().map(|b| (b.to_f64(), b.to_f64().abs())).collect();
        for (x, w) in x.iter().zip(layers.first.chunks(hidden)) {
            for ((sum, magnitude), w) in sums.iter_mut().zip(w) {
                let product = x * w.to_f64();
                *sum += product;
                *magnitude += product.abs();
            }
        }
        // Reference, sum of magnitudes, what the hidden layer's errors come to.
        let mut out = vec![(0.0, 0.0, 0.0); n];
        for ((sum, magnitude), w) in sums.into_iter().zip(layers.second.chunks(n)) {
            let value = sum.max(0.0);
            let off = accumulation(n) * magnitude + half_ulp(T::DTYPE, value);
            for ((reference, total, error), w) in out.iter_mut().zip(w) {
                let w = w.to_f64();
                *reference += value * w;
                *total += (value * w).abs();
                *error += off * w.abs();
            }
        }
        let mut verdict = Comparison::EMPTY;
        for (j, (reference, total, error)) in out.into_iter().enumerate() {
            // Each device's part, and each sum of two in the all-reduce.
            let stored = (2 * devices - 1) as f64 * half_ulp(T::DTYPE, total);
            let bound = error + accumulation(hidden) * (total + error) + stored;
            for y in results {
                verdict.element(i * n + j, y[i * n + j].to_f64(), reference, bound);
            }
        }
        verdict
    };
    rows.par_iter().map(row).reduce(|| Comparison::EMPTY, Comparison::merge)
}
