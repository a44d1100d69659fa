//! Keys and values put where integers say: a scatter, as a cache is filled.

use tilewright::prelude::*;

/// Slot `slot[s]` of both caches takes row s of k and of v. A slot outside of the caches takes nothing; the author promises that no two
/// rows have the same slot.
#[tile_kernel]
pub fn kv_append<T: Float>(
    k: &Tensor<T, S, H, D>,
    v: &Tensor<T, S, H, D>,
    slot: &Tensor<i32, S>,
    k_cache: &mut Tensor<T, L, H, D>,
    v_cache: &mut Tensor<T, L, H, D>,
) {
    let (s, h, d) = program_tile(S, H, D);
    let at = load(slot, [s]);
    store(k_cache, [unique(at), h, d], load(k, [s, h, d]));
    store(v_cache, [unique(at), h, d], load(v, [s, h, d]));
}

schedule! {
    /// Four elements a thread, of eight heads in a CTA.
    pub heads for kv_append<f32 | f16 | bf16> {
        tile(s = 1, h = 8, d = 128);
        split(d -> dt, dv: 4);
        bind(dt -> thread.x, h -> thread.y);
        vectorize(dv);
    }
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub wide for kv_append<f16 | bf16> {
        tile(s = 1, h = 8, d = 128);
        split(d -> dt, dv: 8);
        bind(dt -> thread.x, h -> thread.y);
        vectorize(dv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![heads, wide];
