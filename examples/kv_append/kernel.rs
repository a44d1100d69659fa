//! Rows put where integers say: a scatter, as a cache of keys and values is filled.

use tilewright::prelude::*;

/// Row `slot[s]` of the cache becomes row s of k. A slot outside of the cache takes nothing; the author promises that no two
/// rows have the same slot.
#[tile_kernel]
pub fn append<T: Float>(k: &Tensor<T, S, H, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<T, L, H, D>) {
    let (s, h, d) = program_tile(S, H, D);
    store(cache, [unique(load(slot, [s])), h, d], load(k, [s, h, d]));
}

schedule! {
    /// One element a thread.
    pub scalar for append<f32 | f16 | bf16> {
        tile(s = 1, h = 1, d = 128);
        bind(d -> thread.x);
    }
    /// Eight elements a thread, of eight heads in a CTA.
    pub vectorized for append<f16 | bf16> {
        tile(s = 1, h = 8, d = 128);
        split(d -> dt, dv: 8);
        bind(dt -> thread.x, h -> thread.y);
        vectorize(dv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![scalar, vectorized];
