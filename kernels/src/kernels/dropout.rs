//! Dropout: elements that random bits of their place drop.

use tilewright::prelude::*;

/// y = x · scale, or 0 with probability p. Element n has word n mod 4 of the counter n / 4.
#[tile_kernel]
pub fn dropout<T: Float>(x: &Tensor<T, N>, y: &mut Tensor<T, N>, p: f32, scale: f32, seed: i32) {
    let n = program_tile(N);
    let keep = uniform(random(seed, n >> 2, n)) >= p;
    store(y, [n], select(keep, load(x, [n]).cast::<f32>() * scale, 0.0).cast::<T>());
}

schedule! {
    /// The four elements of a counter a thread, moved by one instruction.
    pub four for dropout<f32 | f16 | bf16> {
        tile(n = 1024);
        split(n -> nt, nv: 4);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Those of two counters: sixteen bytes of 16-bit elements.
    pub eight for dropout<f16 | bf16> {
        tile(n = 2048);
        split(n -> nt, nv: 8);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![four, eight];
