//! Attention to numbers of eight bits (e4m3), with a scale for each head.

use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale · scores) · v · values for each head of a batch, where `scores` and `values` say what a head's numbers were divided by
/// to fit eight bits: `scores` is the product of the scales of q and k, and positive. Powers are those of 2, as in attention to longer
/// numbers.
///
/// Tensor cores read 8-bit factors in rows along what is summed. The second product sums over keys, so v comes transposed: D × N.
///
/// Weights have eight bits, too, when they multiply values. At most 1 each, they would leave the upper half of the range empty: e4m3
/// reaches from 2⁻⁹ to 448. So the maximum that is carried lies 8 below the greatest score: weights reach 2⁸ then, and what is 2⁻¹⁷ of the
/// greatest one is not lost. The sum of weights has the same factor, which cancels.
#[tile_kernel]
pub fn attention_f8<T: Float>(
    q: &Tensor<f8, B, H, M, D>,
    k: &Tensor<f8, B, H, N, D>,
    v: &Tensor<f8, B, H, D, N>,
    scores: &Tensor<f32, B, H>,
    values: &Tensor<f32, B, H>,
    o: &mut Tensor<T, B, H, M, D>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let c = load(scores, [b, h]) * (scale * 1.442695);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, h, i]);
    let mut l = zeros::<f32>([b, h, i]);
    let mut acc = zeros::<f32>([b, h, i, e]);
    for j in tiles(N) {
        let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
        let top = max(m, max(s, j) * c - 8.0);
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
    /// the next tile are computed. Lanes exchange these behind the wait for it, which takes longer than what is gained.
    pub wgmma_skewed = wgmma_producer { skew(s); }
    /// 160 keys at once, as wide as registers permit; their rows begin in four different banks.
    pub wgmma_160 = wgmma_producer {
        tile(j = 160);
        tensor_core(s: wgmma(64, 160));
        swizzle(v: 32);
    }
    /// 96 keys at once.
    pub wgmma_96 = wgmma_producer {
        tile(j = 96);
        tensor_core(s: wgmma(64, 96));
        swizzle(v: 32);
    }
    /// Heads of up to 64.
    pub wgmma_narrow = wgmma_producer {
        fits(D <= 64);
        tensor_core(acc: wgmma(64, 64));
        swizzle(q: 64, k: 64);
    }
    /// With half of the columns there are registers for three warpgroups.
    pub wgmma_narrow3 = wgmma_narrow {
        tile(i = 192, j = 96);
        tensor_core(s: wgmma(64, 96));
        swizzle(v: 32);
        registers(32, 160);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![naive, wgmma, wgmma_producer, wgmma_skewed, wgmma_160, wgmma_96, wgmma_narrow, wgmma_narrow3];
