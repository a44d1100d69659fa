//! Attention of few queries to many keys, in two steps: parts of the keys side by side, then their results together (Dao and others,
//! "Flash-Decoding", 2023).

use tilewright::prelude::*;

/// Part p of attention: to the keys from `keys`·p on, `keys` of them. R queries share a head of keys and values. What a row has is the
/// greatest score, the sum of powers, and the values weighted by them.
#[tile_kernel]
pub fn attention_parts<T: Float>(
    q: &Tensor<T, B, G, R, D>,
    k: &Tensor<T, B, G, N, D>,
    v: &Tensor<T, B, G, N, D>,
    most: &mut Tensor<f32, B, G, P, R>,
    total: &mut Tensor<f32, B, G, P, R>,
    parts: &mut Tensor<f32, B, G, P, R, D>,
    keys: i32,
    scale: f32,
) {
    let (b, g, p, i) = program_tile(B, G, P, R);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, g, p, i]);
    let mut l = zeros::<f32>([b, g, p, i]);
    let mut acc = zeros::<f32>([b, g, p, i, e]);
    for j in tiles(N).between(p * keys, (p + 1) * keys) {
        let s = dot(load(q, [b, g, i, d]), load(k, [b, g, j, d]), zeros::<f32>([b, g, i, j]))
            * (scale * 1.442695);
        let top = max(m, max(s, j));
        let w = exp2(s - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(w, j);
        acc = dot(w.cast::<T>(), load(v, [b, g, j, e]), acc * alpha);
        m = top;
    }
    store(most, [b, g, p, i], m);
    store(total, [b, g, p, i], l);
    store(parts, [b, g, p, i, e], acc);
}

/// The parts of a row, brought to one scale and added. Zero where there are no keys.
#[tile_kernel]
pub fn attention_joined<T: Float>(
    most: &Tensor<f32, B, G, P, R>,
    total: &Tensor<f32, B, G, P, R>,
    parts: &Tensor<f32, B, G, P, R, D>,
    o: &mut Tensor<T, B, G, R, D>,
) {
    let (b, g, i, e) = program_tile(B, G, R, D);
    let p = whole(P);
    let m = max(load(most, [b, g, p, i]), p);
    let w = select(load(total, [b, g, p, i]) == 0.0, 0.0, exp2(load(most, [b, g, p, i]) - m));
    let l = sum(w * load(total, [b, g, p, i]), p);
    let sums = sum(w * load(parts, [b, g, p, i, e]), p);
    store(o, [b, g, i, e], (sums * select(l == 0.0, 0.0, 1.0 / l)).cast::<T>());
}

schedule! {
    /// Eight lanes share the head of a query; keys and values pass through shared memory, two tiles deep.
    pub parts_lanes for attention_parts<f32> {
        fits(D <= 128);
        tile(i = 8, j = 32);
        split(i -> iw, il: 4);
        split(d -> dh, dl, dv: 8, 4);
        split(e -> eh, el, ev: 8, 4);
        reorder(dh, dl, dv, iw, il, j in s.dot);
        reorder(j, iw, il, eh, el, ev in acc);
        stage(k, v at j: shared, cp_async, vector(16));
        fragment(q at i.o);
        pipeline(j, 2);
        reduce(s.dot: lane);
        bind(iw -> warp.x, il -> lane.y, dl -> lane.x, el -> lane.x);
        vectorize(dv, ev);
    }
    /// Both products on tensor cores: a warp has 16 queries. Many such CTAs fit, and together they have much on its way.
    pub parts_mma for attention_parts<f16 | bf16> {
        fits(D <= 128);
        tile(i = 16, j = 32);
        tensor_core(s.dot: mma);
        tensor_core(acc: mma);
        reorder(d.atom, j.atom in s.dot);
        reorder(j.acc, e.atom in acc);
        stage(q at i: shared, vector(16));
        stage(k, v at j: shared, cp_async, vector(16));
        pad(q: 16, k: 16, v: 16);
        pipeline(j, 3);
        occupancy(4);
    }
    /// Heads of up to 64: with half of the columns there is half of the work.
    pub parts_narrow = parts_mma { fits(D <= 64); }
    /// Eight warps share the parts of a row.
    pub joined for attention_joined<f32 | f16 | bf16> {
        tile(i = 1, e = 64);
        split(p -> po, pw: 8);
        split(e -> el, ev: 2);
        recompute(w);
        fuse(w at po);
        reduce(m, l, sums: cta);
        bind(pw -> warp.x, el -> lane.x);
        vectorize(ev);
    }
    /// Begins while the launch before it ends.
    pub parts_lanes_early on sm_90 = parts_lanes { launch(dependent); }
    /// Begins while the launch before it ends.
    pub parts_mma_early on sm_90 = parts_mma { launch(dependent); }
    /// Begins while the launch before it ends.
    pub parts_narrow_early on sm_90 = parts_narrow { launch(dependent); }
    /// Begins while the launch before it ends.
    pub joined_early on sm_90 = joined { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    parts_lanes,
    parts_mma,
    parts_narrow,
    joined,
    parts_lanes_early,
    parts_mma_early,
    parts_narrow_early,
    joined_early
];
