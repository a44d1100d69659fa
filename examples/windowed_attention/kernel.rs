//! Attention to the keys of a window that ends at the query.

// Schedules of attention, which these extend.
use super::attention;
use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale) · v, where query i sees the keys from i − window + 1 to i: a sliding window, and causal attention where the
/// window is as long as the sequence. Tiles of keys beyond the window of all queries at hand are left out.
#[tile_kernel]
pub fn windowed<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    o: &mut Tensor<T, B, H, M, D>,
    window: i32,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, h, i]);
    let mut l = zeros::<f32>([b, h, i]);
    let mut acc = zeros::<f32>([b, h, i, e]);
    for j in tiles(N).between(i - window + 1, i + 1) {
        let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
        let top = max(m, max(s, j) * (scale * 1.442695));
        let p = exp2(s * (scale * 1.442695) - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [b, h, j, e]), acc * alpha);
        m = top;
    }
    let inverse = 1.0 / l;
    store(o, [b, h, i, e], (acc * inverse).cast::<T>());
}

schedule! {
    /// A thread a query, from global memory: the directives of attention to all keys.
    pub naive for windowed<f32 | f16 | bf16> = attention::naive {}
    /// Those of its schedule on tensor cores for heads of up to 64. A warp has 16 queries, so that its registers hold conditions, too.
    pub mma for windowed<f16 | bf16> = attention::mma_narrow {
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
    /// By asynchronous MMA, with a producer. Where the window is the sequence, the last queries see the most keys, and come first.
    pub wgmma on sm_90a for windowed<f16 | bf16> = attention::wgmma_narrow { order(reversed); }
    /// Heads of up to 128.
    pub wgmma_wide on sm_90a for windowed<f16 | bf16> = attention::wgmma_skewed { order(reversed); }
    /// A CTA takes tile after tile, a long one and a short one in turn where the window is the sequence.
    pub wgmma_rounds on sm_90a for windowed<f16 | bf16> = attention::wgmma_persistent {
        persistent(1, serpentine);
        order(reversed);
    }
    /// The CTA that is done first takes the next tile, the longest of eight heads before shorter ones.
    pub wgmma_counted = wgmma_rounds {
        persistent(1, counter);
        order(backwards(8) over h, i);
    }
    /// The first tile of keys says how large weights are; where later ones are much larger, or a query sees none of them, the tile of queries is
    /// computed again. So it is for windows as long as the sequence.
    pub wgmma_frozen = wgmma_rounds { freeze(m); }
    /// Heads of up to 64, with registers for three warpgroups. For windows as long as the sequence, too.
    pub wgmma_narrow3 on sm_90a for windowed<f16 | bf16> = attention::wgmma_narrow3 {
        persistent(1, serpentine);
        order(reversed);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    naive,
    mma,
    mma_wide,
    wgmma,
    wgmma_wide,
    wgmma_rounds,
    wgmma_counted,
    wgmma_frozen,
    wgmma_narrow3
];
