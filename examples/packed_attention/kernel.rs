//! Causal attention within sequences that lie one behind the other.

// Schedules of attention, which these extend.
use super::attention;
use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale) · v, where token i sees the tokens from `first[i]`, at which its sequence begins, to itself. There is no padding,
/// keys may go on behind the last token, and tiles of keys that no query at hand sees are left out.
#[tile_kernel]
pub fn packed<T: Float>(
    q: &Tensor<T, H, S, D>,
    k: &Tensor<T, H, L, D>,
    v: &Tensor<T, H, L, D>,
    first: &Tensor<i32, S>,
    o: &mut Tensor<T, H, S, D>,
    scale: f32,
) {
    let (h, i) = program_tile(H, S);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [h, i]);
    let mut l = zeros::<f32>([h, i]);
    let mut acc = zeros::<f32>([h, i, e]);
    for j in tiles(L).between(load(first, [i]), i + 1) {
        let s = dot(load(q, [h, i, d]), load(k, [h, j, d]), zeros::<f32>([h, i, j]));
        let top = max(m, max(s, j) * (scale * 1.442695));
        let p = exp2(s * (scale * 1.442695) - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [h, j, e]), acc * alpha);
        m = top;
    }
    let inverse = 1.0 / l;
    store(o, [h, i, e], (acc * inverse).cast::<T>());
}

schedule! {
    /// A thread a query, from global memory: the directives of attention to all keys.
    pub naive for packed<f32 | f16 | bf16> = attention::naive {}
    /// Those of its schedule on tensor cores for heads of up to 64. A warp has 16 queries, so that its registers hold conditions, too.
    pub mma for packed<f16 | bf16> = attention::mma_narrow {
        tile(i = 64);
        split(i -> iw, im: 16);
    }
    /// Heads of up to 128, with twice the queries.
    pub mma_wide = mma {
        fits(D <= 128);
        tile(i = 128);
    }
}

schedule! {
    /// By asynchronous MMA, with a producer.
    pub wgmma on sm_90a for packed<f16 | bf16> = attention::wgmma_narrow {}
    /// Heads of up to 128.
    pub wgmma_wide on sm_90a for packed<f16 | bf16> = attention::wgmma_skewed {}
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![naive, mma, mma_wide, wgmma, wgmma_wide];
