//! Seeded random inputs.

use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use std::ops::RangeInclusive;
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
            (0..count).map(|_| T::from_f64(StandardNormal.sample(&mut rng))).collect()
        })
        .collect();
    chunks.concat()
}

/// `len` numbers of a range, all alike likely.
#[allow(dead_code)] // Not every example has integers.
pub fn uniform(seed: u64, stream: u64, len: usize, range: RangeInclusive<i32>) -> Vec<i32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream << 32);
    (0..len).map(|_| rng.random_range(range.clone())).collect()
}

/// The numbers below `len` in random order.
#[allow(dead_code)] // Not every example has integers.
pub fn permutation(seed: u64, stream: u64, len: usize) -> Vec<i32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream << 32);
    let mut all: Vec<i32> = (0..len as i32).collect();
    all.shuffle(&mut rng);
    all
}
