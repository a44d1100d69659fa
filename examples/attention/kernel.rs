//! Attention in one pass over the keys: the maximum, the sum and the weighted sum of a row are carried from tile to tile.

use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale) · v for each head of a batch, with powers of 2 for those of e (the factor is log₂ e), as in "Online normalizer calculation for softmax" (Milakov and
/// Gimelshein, 2018) and FlashAttention (Dao and others, 2022). `scale` is positive: the greatest product has the greatest weight.
#[tile_kernel]
pub fn attention<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    o: &mut Tensor<T, B, H, M, D>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let d = whole(D);
    let e = whole(D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, h, i]);
    let mut l = zeros::<f32>([b, h, i]);
    let mut acc = zeros::<f32>([b, h, i, e]);
    for j in tiles(N) {
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
    /// A thread a query, from global memory. The tile of keys is part of what the kernel computes.
    pub naive for attention<f32 | f16 | bf16> {
        fits(D <= 128);
        tile(i = 64, j = 8);
        bind(i -> thread.x);
    }
    /// Four lanes share the head of four queries: each multiplies its part of it, and they add up by shuffles. Keys and values
    /// pass through shared memory, two tiles deep; queries and results stay in registers. Heads of up to 64.
    pub lanes for attention<f32 | f16 | bf16> {
        fits(D <= 64);
        tile(i = 128, j = 16);
        split(i -> iw, il, ir: 8, 4);
        split(d -> dh, dl, dv: 4, 4);
        split(e -> eh, el, ev: 4, 4);
        reorder(dh, dl, dv, iw, il, ir, j in s);
        reorder(j, iw, il, ir, eh, el, ev in acc);
        stage(k, v at j: shared, cp_async, vector(16));
        fragment(q at i.o);
        pipeline(j, 2);
        reduce(s: lane);
        bind(iw -> warp.x, il -> lane.y, dl -> lane.x, el -> lane.x);
        vectorize(dv, ev);
    }
    /// Eight lanes share a head of up to 128.
    pub wide = lanes {
        fits(D <= 128);
        tile(i = 64);
        split(i -> iw, il, ir: 4, 4);
        split(d -> dh, dl, dv: 8, 4);
        split(e -> eh, el, ev: 8, 4);
    }
}

schedule! {
    /// Both products on tensor cores. A warp has 32 queries; its weights go from the registers that the first product leaves
    /// them in straight to the second.
    pub mma for attention<f16 | bf16> {
        fits(D <= 128);
        tile(i = 128, j = 32);
        split(i -> iw, im: 32);
        tensor_core(s: mma);
        tensor_core(acc: mma);
        reorder(iw, d.atom, j.atom, im in s);
        reorder(iw, j.acc, e.atom, im in acc);
        stage(q at i: shared, vector(16));
        stage(k, v at j: shared, cp_async, vector(16));
        pad(q: 16, k: 16, v: 16);
        pipeline(j, 2);
        bind(iw -> warp.x);
        vectorize(e.pair in o);
    }
    /// Heads of up to 64: with half of the columns there is half of the work.
    pub mma_narrow = mma {
        fits(D <= 64);
        tile(j = 64);
    }
}

schedule! {
    /// Hopper: both products by asynchronous MMA. Two warpgroups have 64 queries each; their weights are the first operand of the second
    /// product, in registers.
    pub wgmma on sm_90a for attention<f16 | bf16> {
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
        bind(iw -> warpgroup.x);
        vectorize(e.pair in o);
        exchange(o);
    }
    /// A third warpgroup copies, and gives its registers to the two that multiply.
    pub wgmma_producer = wgmma {
        produce(j: warpgroup);
        registers(24, 240);
    }
    /// The first product is that of the next tile of keys: it is on its way with the second one, which goes on while the weights of
    /// the next tile are computed.
    pub wgmma_skewed = wgmma_producer {
        skew(s);
    }
    /// A CTA takes tile after tile: what the next one reads is copied while the last one ends.
    pub wgmma_persistent = wgmma_skewed {
        produce(i: warpgroup, stages(2));
        persistent(1);
    }
    /// The first tile of keys says how large weights are; where later ones are much larger, the tile of queries is computed again.
    pub wgmma_frozen = wgmma_persistent { freeze(m); }
    /// Heads of up to 256. Results take 128 registers of a thread, so there are fewer keys at once.
    pub wgmma_wide = wgmma_skewed {
        fits(D <= 256);
        tile(j = 80);
        tensor_core(s: wgmma(64, 80));
        tensor_core(acc: wgmma(64, 256));
    }
    /// The first tile of keys says how large weights are.
    pub wgmma_wide_frozen = wgmma_wide {
        tile(j = 64);
        tensor_core(s: wgmma(64, 64));
        freeze(m);
    }
    /// Heads of up to 64.
    pub wgmma_narrow = wgmma_skewed {
        fits(D <= 64);
        tensor_core(acc: wgmma(64, 64));
    }
    /// With half of the columns there are registers for three warpgroups.
    pub wgmma_narrow3 = wgmma_narrow {
        tile(i = 192);
        pipeline(j, 3);
        produce(i: warpgroup, stages(2));
        persistent(1);
        registers(32, 160);
        freeze(m);
    }
}

/// The same as one would write it on paper: no tile of keys, and nothing that is carried from one to the next. Under `online` it becomes
/// the loop above.
#[tile_kernel]
pub fn attention_plain<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    o: &mut Tensor<T, B, H, M, D>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let j = whole(N);
    let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
    let m = max(s * (scale * 1.442695), j);
    let p = exp2(s * (scale * 1.442695) - m);
    let l = sum(p, j);
    let acc = dot(p.cast::<T>(), load(v, [b, h, j, e]), zeros::<f32>([b, h, i, e]));
    let inverse = 1.0 / l;
    store(o, [b, h, i, e], (acc * inverse).cast::<T>());
}

schedule! {
    /// The plain text under the directives of `wgmma_frozen`.
    pub plain_frozen on sm_90a for attention_plain<f16 | bf16> = wgmma_frozen { drop(tile(j)); online(j = 128); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    naive,
    lanes,
    wide,
    mma,
    mma_narrow,
    wgmma,
    wgmma_producer,
    wgmma_skewed,
    wgmma_persistent,
    wgmma_frozen,
    wgmma_wide,
    wgmma_wide_frozen,
    wgmma_narrow,
    wgmma_narrow3,
    plain_frozen
];
