//! Attention in one pass over the keys: the maximum, the sum and the weighted sum of a row are carried from tile to tile.

use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale) · v, with powers of 2 for those of e (the factor is log₂ e). R heads of queries share a head of keys and
/// values. Zero where there are no keys.
#[tile_kernel]
pub fn attention<T: Float>(
    q: &Tensor<T, B, G, R, M, D>,
    k: &Tensor<T, B, G, N, D>,
    v: &Tensor<T, B, G, N, D>,
    o: &mut Tensor<T, B, G, R, M, D>,
    scale: f32,
) {
    let (b, g, r, i) = program_tile(B, G, R, M);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, g, r, i]);
    let mut l = zeros::<f32>([b, g, r, i]);
    let mut acc = zeros::<f32>([b, g, r, i, e]);
    for j in tiles(N) {
        let s = dot(load(q, [b, g, r, i, d]), load(k, [b, g, j, d]), zeros::<f32>([b, g, r, i, j]));
        let top = max(m, max(s, j) * (scale * 1.442695));
        let p = exp2(s * (scale * 1.442695) - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [b, g, j, e]), acc * alpha);
        m = top;
    }
    let inverse = select(l == 0.0, 0.0, 1.0 / l);
    store(o, [b, g, r, i, e], (acc * inverse).cast::<T>());
}

/// The same, where the last query sees all keys and each one before it sees one less. Tiles of keys that no query at hand sees are
/// left out.
#[tile_kernel]
pub fn causal_attention<T: Float>(
    q: &Tensor<T, B, G, R, M, D>,
    k: &Tensor<T, B, G, N, D>,
    v: &Tensor<T, B, G, N, D>,
    o: &mut Tensor<T, B, G, R, M, D>,
    scale: f32,
) {
    let (b, g, r, i) = program_tile(B, G, R, M);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, g, r, i]);
    let mut l = zeros::<f32>([b, g, r, i]);
    let mut acc = zeros::<f32>([b, g, r, i, e]);
    for j in tiles(N).below(i + 1 - M + N) {
        let s = dot(load(q, [b, g, r, i, d]), load(k, [b, g, j, d]), zeros::<f32>([b, g, r, i, j]));
        let top = max(m, max(s, j) * (scale * 1.442695));
        let p = exp2(s * (scale * 1.442695) - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [b, g, j, e]), acc * alpha);
        m = top;
    }
    let inverse = select(l == 0.0, 0.0, 1.0 / l);
    store(o, [b, g, r, i, e], (acc * inverse).cast::<T>());
}

schedule! {
    /// Eight lanes share the head of four queries: each multiplies its part of it, and they add up by shuffles. Keys and values pass
    /// through shared memory, two tiles deep; queries and results stay in registers.
    pub lanes for attention<f32> {
        fits(D <= 128);
        tile(i = 64, j = 16);
        split(i -> iw, il, ir: 4, 4);
        split(d -> dh, dl, dv: 8, 4);
        split(e -> eh, el, ev: 8, 4);
        reorder(dh, dl, dv, iw, il, ir, j in s);
        reorder(j, iw, il, ir, eh, el, ev in acc);
        stage(k, v at j: shared, cp_async, vector(16));
        fragment(q at i.o);
        pipeline(j, 2);
        reduce(s: lane);
        bind(iw -> warp.x, il -> lane.y, dl -> lane.x, el -> lane.x);
        vectorize(dv, ev);
    }
    /// Both products on tensor cores. A warp has 32 queries; its weights go from the registers that the first product leaves
    /// them in straight to the second.
    pub mma for attention<f16 | bf16> {
        fits(D <= 128);
        tile(i = 128, j = 64);
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
    pub mma_narrow = mma { fits(D <= 64); }
}

schedule! {
    /// By asynchronous MMA. Two warpgroups have 64 queries each, and take their weights from the registers that the first product leaves
    /// them in; a third one copies by tensor maps. The first product is that of the next tile of keys: it is on its way with the second
    /// one, which goes on while the weights are computed. The first tile of keys says how large weights are; where later ones are much
    /// larger, the tile of queries is computed again. A CTA takes tile after tile: what the next one reads is copied while the last one ends.
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
        produce(i: warpgroup, stages(2));
        produce(j: warpgroup);
        persistent(1);
        skew(s);
        freeze(m);
        bind(iw -> warpgroup.x);
        registers(24, 240);
        vectorize(e.pair in o);
        exchange(o);
    }
    /// Heads of up to 64: with half of the columns there are registers for three warpgroups.
    pub wgmma_narrow = wgmma {
        fits(D <= 64);
        tile(i = 192);
        tensor_core(acc: wgmma(64, 64));
        pipeline(j, 3);
        registers(32, 160);
    }
}

schedule! {
    /// Half of the queries, so that registers hold conditions, too.
    pub causal_lanes for causal_attention<f32> = lanes {
        tile(i = 32);
        split(i -> iw, il, ir: 4, 2);
    }
    /// Heads of up to 64. A warp has 16 queries, so that its registers hold conditions, too.
    pub causal_narrow for causal_attention<f16 | bf16> = mma_narrow {
        tile(i = 64);
        split(i -> iw, im: 16);
    }
    /// Heads of up to 128, with twice the queries.
    pub causal_mma = causal_narrow {
        fits(D <= 128);
        tile(i = 128);
    }
}

schedule! {
    /// Heads of up to 128, by asynchronous MMA. The last queries see the most keys: of eight heads they come first, and the CTA that is done
    /// first takes the next tile.
    pub causal_wgmma on sm_90a for causal_attention<f16 | bf16> = wgmma {
        persistent(1, counter);
        order(backwards(8) over g, i);
    }
    /// Heads of up to 64, with registers for no number of a next tile: a CTA takes a long one and a short one in turn.
    pub causal_wgmma_narrow on sm_90a for causal_attention<f16 | bf16> = wgmma_narrow {
        persistent(1, serpentine);
        order(reversed);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    lanes,
    mma,
    mma_narrow,
    wgmma,
    wgmma_narrow,
    causal_lanes,
    causal_narrow,
    causal_mma,
    causal_wgmma,
    causal_wgmma_narrow
];
