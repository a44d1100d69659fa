//! Attention of one query a sequence to a cache whose pages lie anywhere, in parts that are put together.

use tilewright::prelude::*;

/// Of each part of a sequence's keys: the greatest score, the sum of weights, and the weighted sum of values. The cache has pages of 16 tokens;
/// `pages` says where those of a sequence are, and `len` how many tokens it has. A part has `each` keys. R queries share a head of the cache.
#[tile_kernel]
pub fn parts<T: Float>(
    q: &Tensor<T, B, G, R, D>,
    k: &Tensor<T, P, 16, G, D>,
    v: &Tensor<T, P, 16, G, D>,
    pages: &Tensor<i32, B, L>,
    len: &Tensor<i32, B>,
    most: &mut Tensor<f32, B, C, G, R>,
    weight: &mut Tensor<f32, B, C, G, R>,
    sums: &mut Tensor<f32, B, C, G, R, D>,
    scale: f32,
    each: i32,
) {
    let (b, c, g, r) = program_tile(B, C, G, R);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, c, g, r]);
    let mut l = zeros::<f32>([b, c, g, r]);
    let mut acc = zeros::<f32>([b, c, g, r, e]);
    for j in tiles({ 16 * L }).between(each * c, min(each * c + each, load(len, [b]))) {
        let page = load(pages, [b, j / 16]);
        let s = dot(load(q, [b, g, r, d]), load(k, [page, j % 16, g, d]), zeros::<f32>([b, g, r, j]))
            * (scale * 1.442695);
        let top = max(m, max(s, j));
        let p = exp2(s - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [page, j % 16, g, e]), acc * alpha);
        m = top;
    }
    store(most, [b, c, g, r], m);
    store(weight, [b, c, g, r], l);
    store(sums, [b, c, g, r, e], acc);
}

/// The parts put together: each weighs as much as its greatest score says. Zero where there are no keys.
#[tile_kernel]
pub fn combine<T: Float>(
    most: &Tensor<f32, B, C, G, R>,
    weight: &Tensor<f32, B, C, G, R>,
    sums: &Tensor<f32, B, C, G, R, D>,
    o: &mut Tensor<T, B, G, R, D>,
) {
    let (b, g, r, e) = program_tile(B, G, R, D);
    let c = whole(C);
    let m = load(most, [b, c, g, r]);
    let w = select(load(weight, [b, c, g, r]) == 0.0, 0.0, exp2(m - max(m, c)));
    let total = sum(w * load(weight, [b, c, g, r]), c);
    let all = sum(w * load(sums, [b, c, g, r, e]), c);
    store(o, [b, g, r, e], (all * select(total == 0.0, 0.0, 1.0 / total)).cast::<T>());
}

schedule! {
    /// A thread a query, from global memory.
    pub naive for parts<f32 | f16 | bf16> {
        fits(D <= 128);
        tile(g = 8, r = 4, j = 4);
        bind(g -> thread.y, r -> thread.x);
    }
    /// Eight lanes share the head of a query; a warp has a head of the cache, whose keys and values pass through shared memory, two tiles
    /// deep.
    pub lanes for parts<f32> {
        fits(D <= 128);
        tile(g = 4, r = 4, j = 16);
        split(d -> dh, dl, dv: 8, 4);
        split(e -> eh, el, ev: 8, 4);
        reorder(dh, dl, dv, g, r, j in s.dot);
        reorder(j, g, r, eh, el, ev in acc);
        stage(k, v at j: shared, cp_async, vector(16));
        pipeline(j, 2);
        reduce(s.dot: lane);
        bind(g -> warp.x, r -> lane.y, dl -> lane.x, el -> lane.x);
        vectorize(dv, ev);
    }
    /// Rows of keys and values that `pages` names in shared memory, three tiles ahead. A warp has a head of the cache, and tensor cores
    /// multiply its queries by the keys.
    pub mma for parts<f16 | bf16> {
        fits(D <= 128);
        tile(g = 4, r = 16, j = 16);
        split(r -> rw, rm: 16);
        tensor_core(s.dot: mma);
        tensor_core(acc: mma);
        stage(q at r: shared, vector(16));
        stage(k, v at j: shared, cp_async, vector(16));
        pad(q: 16, k: 16, v: 16);
        pipeline(j, 3);
        bind(g -> warp.x);
    }
    /// A lane an element of a head.
    pub together for combine<f32 | f16 | bf16> {
        recompute(m);
        fuse(m at c);
        recompute(w);
        fuse(w at c);
        tile(r = 4, e = 32);
        bind(r -> warp.x, e -> lane.x);
    }
}

schedule! {
    /// Begins while the launch before it ends.
    pub mma_early on sm_90 = mma { launch(dependent); }
    /// Begins while the launch before it ends.
    pub together_early on sm_90 = together { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![naive, lanes, mma, together, mma_early, together_early];
