//! Attention to numbers of eight bits (e4m3), with a scale for each head.

use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale · scores) · v · values for each head of a batch, where `scores` and `values` say what a head's numbers were divided by
/// to fit eight bits: `scores` is the product of the scales of q and k, and positive. Powers are those of 2, as in attention to longer
/// numbers.
///
/// Tensor cores read 8-bit factors in rows along what is summed. The second product sums over keys, so v comes transposed: D × N.
///
/// Weights have eight bits, too, when they multiply values. At most 1 each, they would leave the upper half of the range empty: e4m3
/// reaches from 2⁻⁹ to 448. So the maximum that is carried lies `reach` below the greatest score, and weights reach 2 to the power of it.
/// With 8, what is 2⁻¹⁷ of the greatest one is not lost. The sum of weights has the same factor, which cancels.
#[tile_kernel]
pub fn attention_f8<T: Float>(
    q: &Tensor<f8, B, H, M, D>,
    k: &Tensor<f8, B, H, N, D>,
    v: &Tensor<f8, B, H, D, N>,
    scores: &Tensor<f32, B, H>,
    values: &Tensor<f32, B, H>,
    o: &mut Tensor<T, B, H, M, D>,
    scale: f32,
    reach: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let c = load(scores, [b, h]) * (scale * 1.442695);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, h, i]);
    let mut l = zeros::<f32>([b, h, i]);
    let mut acc = zeros::<f32>([b, h, i, e]);
    for j in tiles(N) {
        let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
        let top = max(m, max(s, j) * c - reach);
        let p = exp2(s * c - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        let w = p.cast::<f8>();
        acc = dot(w, load(v, [b, h, e, j]), acc * alpha);
        m = top;
    }
    let factor = load(values, [b, h]) / l;
    store(o, [b, h, i, e], (acc * factor).cast::<T>());
}

schedule! {
    /// A thread a query, from global memory.
    pub naive on sm_89 for attention_f8<f32 | f16 | bf16> {
        fits(D <= 128);
        tile(i = 64, j = 8);
        bind(i -> thread.x);
    }
}

schedule! {
    /// Hopper: both products by asynchronous MMA. Two warpgroups have 64 queries each. The lanes that have the weights are not those that
    /// multiply them: of four keys beside each other an operand of eight bits has all in one lane, and the sums of the first product two.
    /// So four lanes exchange them.
    pub wgmma on sm_90a for attention_f8<f16 | bf16> {
        fits(D <= 128);
        tile(i = 128, j = 128);
        split(i -> iw, im: 64);
        tensor_core(s: wgmma(64, 128));
        tensor_core(acc: wgmma(64, 128));
        stage(q at i: shared, tma);
        stage(k, v at j: shared, tma);
        swizzle(q: 128, k: 128, v: 128);
        pipeline(j, 2);
        issue(s: overwrite);
        unroll(d.atom in s);
        unroll(j.acc);
        bind(iw -> warpgroup.x);
        vectorize(e.pair in o);
        exchange(o);
    }
    /// A third warpgroup copies, and gives its registers to the two that multiply.
    pub wgmma_producer = wgmma {
        pipeline(j, 3);
        produce(j: warpgroup);
        registers(24, 240);
    }
    /// The first product is that of the next tile of keys: it is on its way with the second one, which goes on while the weights of
    /// the next tile are computed. The next weights have registers of their own until the second product has read its own.
    pub wgmma_skewed = wgmma_producer { skew(s); }
    /// A CTA takes tile after tile: what the next one reads is copied while the last one ends.
    pub wgmma_persistent = wgmma_skewed {
        produce(i: warpgroup, stages(2));
        persistent(1);
    }
    /// The first tile of keys says how large weights are. Where later ones do not fit eight bits, the tile of queries is computed again.
    pub wgmma_frozen = wgmma_persistent { freeze(m); }
    /// Heads of up to 64.
    pub wgmma_narrow = wgmma_persistent {
        fits(D <= 64);
        tensor_core(acc: wgmma(64, 64));
        swizzle(q: 64, k: 64);
    }
    /// With half of the columns there are registers for three warpgroups.
    pub wgmma_narrow_frozen = wgmma_narrow {
        tile(i = 192);
        registers(32, 160);
        freeze(m);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    naive,
    wgmma,
    wgmma_producer,
    wgmma_skewed,
    wgmma_persistent,
    wgmma_frozen,
    wgmma_narrow,
    wgmma_narrow_frozen
];
