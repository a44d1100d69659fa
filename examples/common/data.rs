//! Seeded random inputs.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tilewright::Float;

/// `len` standard normal numbers; `stream` tells the tensors of one run apart.
pub fn normal<T: Float>(seed: u64, stream: u64, len: usize) -> Vec<T> {
    const CHUNK: usize = 1 << 16;
    let chunks: Vec<Vec<T>> = (0..len.div_ceil(CHUNK))
        .into_par_iter()
        .map(|chunk| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            rng.set_stream(stream << 32 | chunk as u64);
            let count = CHUNK.min(len - chunk * CHUNK);
            (0..count).map(|_| T::from_f64(gauss(&mut rng))).collect()
        })
        .collect();
    chunks.concat()
}

/// A standard normal number, by Box and Muller's transform.
fn gauss(rng: &mut ChaCha8Rng) -> f64 {
    // In (0, 1]: its logarithm is finite.
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
