//! Attention of one query a sequence to a cache whose pages lie anywhere, in parts that are put together.

use tilewright::prelude::*;

/// Of each part of a sequence's keys: the greatest score, the sum of weights, and the weighted sum of values. The cache has pages of 16 tokens;
/// `pages` says where those of a sequence are, and `len` how many tokens it has. A part has `each` keys, whole pages. R queries share a head of
/// the cache.
///
/// A step takes a page. The last one is read from so far before its first token on that it ends with the last token: what is before the page
/// reads as zero, and nothing is read of what is behind the sequence. So numbers of any kind may be there.
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
    for n in tiles(L).between(each / 16 * c, min(each / 16 * (c + 1), (load(len, [b]) + 15) / 16)) {
        // A loop rather than `whole`: tensor cores add along the last axis that a product is summed over, and that is not to be `n`.
        for t in tiles(16) {
            let page = load(pages, [b, n]);
            let s = dot(
                load(q, [b, g, r, d]),
                load(k, [page, t + min(load(len, [b]) - 16 * n - 16, 0), g, d]),
                zeros::<f32>([b, g, r, n, t]),
            );
            // A finite number, so that a tile without a token leaves no NaN; the tile with the last token makes nothing of its weights.
            let seen = select(t + min(load(len, [b]) - 16 * n - 16, 0) < 0, f32::MIN, s * (scale * 1.442695));
            let top = max(m, max(max(seen, t), n));
            let p = exp2(seen - top);
            let alpha = exp2(m - top);
            l = l * alpha + sum(sum(p, t), n);
            acc = dot(
                p.cast::<T>(),
                load(v, [page, t + min(load(len, [b]) - 16 * n - 16, 0), g, e]),
                acc * alpha,
            );
            m = top;
        }
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
        tile(g = 8, r = 4, n = 1, t = 4);
        bind(g -> thread.y, r -> thread.x);
    }
    /// Eight lanes share the head of a query; a warp has a head of the cache, whose keys and values pass through shared memory, two pages
    /// deep.
    pub lanes for parts<f32> {
        fits(D <= 128);
        tile(g = 4, r = 4, n = 1, t = 16);
        split(d -> dh, dl, dv: 8, 4);
        split(e -> eh, el, ev: 8, 4);
        reorder(dh, dl, dv, g, r, t in s);
        reorder(t, g, r, eh, el, ev in acc);
        stage(k, v at n: shared, cp_async, vector(16));
        pipeline(n, 2);
        reduce(s: lane);
        bind(g -> warp.x, r -> lane.y, dl -> lane.x, el -> lane.x);
        vectorize(dv, ev);
    }
    /// Pages in shared memory, three at a time. A warp has a head of the cache, and tensor cores multiply its queries by the keys.
    pub mma for parts<f16 | bf16> {
        fits(D <= 128);
        tile(g = 4, r = 16, n = 1, t = 16);
        split(r -> rw, rm: 16);
        tensor_core(s: mma);
        tensor_core(acc: mma);
        stage(q at r: shared, vector(16));
        stage(k, v at n: shared, cp_async, vector(16));
        pad(q: 16, k: 16, v: 16);
        pipeline(n, 3);
        bind(g -> warp.x);
    }
    /// A warp a CTA, which no other one waits for. It takes 44 KiB of shared memory where `mma` takes 119: a multiprocessor of an H200 has five CTAs, and
    /// GPUs with 99 KiB a CTA run it, too.
    pub mma_one = mma {
        tile(g = 1);
        drop(pad(q), pad(k), pad(v));
        swizzle(q: 128, k: 128, v: 128);
        unroll(d.atom in s);
        pipeline(n, 5);
    }
    /// Sixteen warps share the parts of a query, and a lane has four elements of its head.
    pub spread for combine<f32 | f16 | bf16> {
        recompute(m);
        fuse(m at c);
        recompute(w);
        fuse(w at c);
        tile(e = 128);
        split(e -> el, ev: 4);
        split(c -> cr, cw: 16);
        reduce(w.max, total, all: warp);
        bind(cw -> warp.x, el -> lane.x);
        vectorize(ev);
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
    /// A warp copies pages by tensor maps, six at a time: no warp that multiplies waits for the number of a page. Two heads a CTA and two CTAs
    /// a multiprocessor, so that one multiplies while the other waits. Begins while the launch before it ends.
    pub mapped on sm_90 for parts<f16 | bf16> = mma {
        tile(g = 2);
        stage(k, v at n: shared, tma);
        drop(pad(q), pad(k), pad(v));
        swizzle(q: 128, k: 128, v: 128);
        unroll(d.atom in s);
        pipeline(n, 6);
        produce(n: warp);
        launch(dependent);
    }
}

schedule! {
    /// Begins while the launch before it ends.
    pub mma_one_early on sm_90 = mma_one { launch(dependent); }
    /// Begins while the launch before it ends.
    pub together_early on sm_90 = together { launch(dependent); }
    /// Begins while the launch before it ends.
    pub spread_early on sm_90 = spread { launch(dependent); }
}

/// Those of the parts.
pub const PARTS: &[&dyn AnySchedule] = schedules![naive, lanes, mma, mma_one, mapped, mma_one_early];

/// Those that join the parts.
pub const JOINS: &[&dyn AnySchedule] = schedules![together, spread, together_early, spread_early];

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    naive,
    lanes,
    mma,
    mma_one,
    mapped,
    mma_one_early,
    together,
    spread,
    together_early,
    spread_early
];
