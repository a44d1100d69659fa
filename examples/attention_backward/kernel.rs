//! The gradients of attention. The forward pass keeps the logarithm of each row's sum; the backward pass computes the weights again
//! from it, tile by tile, so that no matrix of weights is stored.

// Schedules of attention, which some here extend.
use super::attention;
use tilewright::prelude::*;

/// o = softmax(q·kᵀ · scale) · v, and of each row the logarithm to base 2 of the sum that its weights are divided by: weight j of row i
/// is 2^(q[i]·k[j] · scale·log₂ e − lse[i]).
#[tile_kernel]
pub fn attention_lse<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    o: &mut Tensor<T, B, H, M, D>,
    lse: &mut Tensor<f32, B, H, M>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
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
    let inverse = select(l == 0.0, 0.0, 1.0 / l);
    store(o, [b, h, i, e], (acc * inverse).cast::<T>());
    store(lse, [b, h, i], m + log(l) * 1.442695);
}

/// The same, where the last query sees all keys and each one before it sees one less.
#[tile_kernel]
pub fn causal_attention_lse<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    o: &mut Tensor<T, B, H, M, D>,
    lse: &mut Tensor<f32, B, H, M>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [b, h, i]);
    let mut l = zeros::<f32>([b, h, i]);
    let mut acc = zeros::<f32>([b, h, i, e]);
    for j in tiles(N).below(i + 1 - M + N) {
        let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
        let top = max(m, max(s, j) * (scale * 1.442695));
        let p = exp2(s * (scale * 1.442695) - top);
        let alpha = exp2(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [b, h, j, e]), acc * alpha);
        m = top;
    }
    let inverse = select(l == 0.0, 0.0, 1.0 / l);
    store(o, [b, h, i, e], (acc * inverse).cast::<T>());
    store(lse, [b, h, i], m + log(l) * 1.442695);
}

/// What all weights of a row have in common in the gradient of its scores: the row of o times the row of its gradient.
#[tile_kernel]
pub fn row_products<T: Float>(
    o: &Tensor<T, B, H, M, D>,
    dout: &Tensor<T, B, H, M, D>,
    delta: &mut Tensor<f32, B, H, M>,
) {
    let (b, h, i) = program_tile(B, H, M);
    let e = whole(D);
    let product = load(o, [b, h, i, e]).cast::<f32>() * load(dout, [b, h, i, e]).cast::<f32>();
    store(delta, [b, h, i], sum(product, e));
}

/// The gradients of keys and values. A program has a tile of keys and goes over all queries: the weights stand with a row for each key,
/// so that both sums take them as rows.
#[tile_kernel]
pub fn key_gradients<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    dout: &Tensor<T, B, H, M, D>,
    lse: &Tensor<f32, B, H, M>,
    delta: &Tensor<f32, B, H, M>,
    dk: &mut Tensor<T, B, H, N, D>,
    dv: &mut Tensor<T, B, H, N, D>,
    scale: f32,
) {
    let (b, h, j) = program_tile(B, H, N);
    let (d, e) = whole(D, D);
    let mut sum_k = zeros::<f32>([b, h, j, d]);
    let mut sum_v = zeros::<f32>([b, h, j, e]);
    for i in tiles(M) {
        let s = dot(load(k, [b, h, j, d]), load(q, [b, h, i, d]), zeros::<f32>([b, h, j, i]));
        let dp = dot(load(v, [b, h, j, e]), load(dout, [b, h, i, e]), zeros::<f32>([b, h, j, i]));
        let p = exp2(s * (scale * 1.442695) - load(lse, [b, h, i]));
        let ds = p * (dp - load(delta, [b, h, i]));
        sum_v = dot(p.cast::<T>(), load(dout, [b, h, i, e]), sum_v);
        sum_k = dot(ds.cast::<T>(), load(q, [b, h, i, d]), sum_k);
    }
    store(dk, [b, h, j, d], (sum_k * scale).cast::<T>());
    store(dv, [b, h, j, e], sum_v.cast::<T>());
}

/// The same, where the last query sees all keys: the first query that sees key j is j + M − N.
#[tile_kernel]
pub fn causal_key_gradients<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    dout: &Tensor<T, B, H, M, D>,
    lse: &Tensor<f32, B, H, M>,
    delta: &Tensor<f32, B, H, M>,
    dk: &mut Tensor<T, B, H, N, D>,
    dv: &mut Tensor<T, B, H, N, D>,
    scale: f32,
) {
    let (b, h, j) = program_tile(B, H, N);
    let (d, e) = whole(D, D);
    let mut sum_k = zeros::<f32>([b, h, j, d]);
    let mut sum_v = zeros::<f32>([b, h, j, e]);
    for i in tiles(M).between(j + M - N, M) {
        let s = dot(load(k, [b, h, j, d]), load(q, [b, h, i, d]), zeros::<f32>([b, h, j, i]));
        let dp = dot(load(v, [b, h, j, e]), load(dout, [b, h, i, e]), zeros::<f32>([b, h, j, i]));
        let p = exp2(s * (scale * 1.442695) - load(lse, [b, h, i]));
        let ds = p * (dp - load(delta, [b, h, i]));
        sum_v = dot(p.cast::<T>(), load(dout, [b, h, i, e]), sum_v);
        sum_k = dot(ds.cast::<T>(), load(q, [b, h, i, d]), sum_k);
    }
    store(dk, [b, h, j, d], (sum_k * scale).cast::<T>());
    store(dv, [b, h, j, e], sum_v.cast::<T>());
}

/// The gradient of queries. A program has a tile of queries and goes over all keys.
#[tile_kernel]
pub fn query_gradients<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    dout: &Tensor<T, B, H, M, D>,
    lse: &Tensor<f32, B, H, M>,
    delta: &Tensor<f32, B, H, M>,
    dq: &mut Tensor<T, B, H, M, D>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let mut sum_q = zeros::<f32>([b, h, i, d]);
    for j in tiles(N) {
        let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
        let dp = dot(load(dout, [b, h, i, e]), load(v, [b, h, j, e]), zeros::<f32>([b, h, i, j]));
        let p = exp2(s * (scale * 1.442695) - load(lse, [b, h, i]));
        let ds = p * (dp - load(delta, [b, h, i]));
        sum_q = dot(ds.cast::<T>(), load(k, [b, h, j, d]), sum_q);
    }
    store(dq, [b, h, i, d], (sum_q * scale).cast::<T>());
}

/// The same, where the last query sees all keys.
#[tile_kernel]
pub fn causal_query_gradients<T: Float>(
    q: &Tensor<T, B, H, M, D>,
    k: &Tensor<T, B, H, N, D>,
    v: &Tensor<T, B, H, N, D>,
    dout: &Tensor<T, B, H, M, D>,
    lse: &Tensor<f32, B, H, M>,
    delta: &Tensor<f32, B, H, M>,
    dq: &mut Tensor<T, B, H, M, D>,
    scale: f32,
) {
    let (b, h, i) = program_tile(B, H, M);
    let (d, e) = whole(D, D);
    let mut sum_q = zeros::<f32>([b, h, i, d]);
    for j in tiles(N).below(i + 1 - M + N) {
        let s = dot(load(q, [b, h, i, d]), load(k, [b, h, j, d]), zeros::<f32>([b, h, i, j]));
        let dp = dot(load(dout, [b, h, i, e]), load(v, [b, h, j, e]), zeros::<f32>([b, h, i, j]));
        let p = exp2(s * (scale * 1.442695) - load(lse, [b, h, i]));
        let ds = p * (dp - load(delta, [b, h, i]));
        sum_q = dot(ds.cast::<T>(), load(k, [b, h, j, d]), sum_q);
    }
    store(dq, [b, h, i, d], (sum_q * scale).cast::<T>());
}

schedule! {
    /// Forward: the directives of attention, eight lanes a head.
    pub forward_lanes for attention_lse<f32 | f16 | bf16> = attention::wide {}
    /// By `mma.sync`. A warp has 16 queries.
    pub forward_mma for attention_lse<f16 | bf16> = attention::mma {
        split(i -> iw, im: 16);
    }
    /// By asynchronous MMA, the first product a step ahead.
    pub forward_wgmma on sm_90a for attention_lse<f16 | bf16> = attention::wgmma_skewed {}
    /// The first tile of keys says how large weights are.
    pub forward_wgmma_frozen on sm_90a for attention_lse<f16 | bf16> = attention::wgmma_frozen {}
    /// Heads of up to 64.
    pub forward_wgmma_narrow on sm_90a for attention_lse<f16 | bf16> = attention::wgmma_narrow {}
}

schedule! {
    /// The same with limits. Half of the queries, so that registers hold conditions, too.
    pub causal_forward_lanes for causal_attention_lse<f32 | f16 | bf16> = attention::wide {
        tile(i = 16);
        split(i -> iw, il, ir: 4, 1);
    }
    /// By `mma.sync`. A warp has 16 queries, so that its registers hold conditions, too.
    pub causal_forward_mma for causal_attention_lse<f16 | bf16> = attention::mma {
        split(i -> iw, im: 16);
    }
    /// By asynchronous MMA. The last queries see the most keys, and come first.
    pub causal_forward_wgmma on sm_90a for causal_attention_lse<f16 | bf16> = attention::wgmma_skewed {
        order(reversed);
    }
    /// Heads of up to 64.
    pub causal_forward_wgmma_narrow on sm_90a for causal_attention_lse<f16 | bf16> = attention::wgmma_narrow {
        order(reversed);
    }
}

schedule! {
    /// A warp a row: each lane loads four neighbours of it.
    pub rows_lanes for row_products<f32 | f16 | bf16> {
        fits(D <= 128);
        tile(i = 8);
        split(e -> el, ev: 4);
        reduce(delta.sum: lane);
        bind(i -> warp.x, el -> lane.x);
        vectorize(ev);
    }
}

schedule! {
    /// A thread a key, from global memory.
    pub keys_naive for key_gradients<f32 | f16 | bf16> {
        fits(D <= 64);
        tile(j = 64, i = 8);
        bind(j -> thread.x);
    }
    /// By `mma.sync`: a warp has 16 keys, and takes 32 queries at once.
    pub keys_mma for key_gradients<f16 | bf16> {
        fits(D <= 128);
        tile(j = 128, i = 32);
        split(j -> jw, jm: 16);
        tensor_core(s: mma);
        tensor_core(dp: mma);
        tensor_core(sum_v: mma);
        tensor_core(sum_k: mma);
        reorder(jw, d.atom, i.atom, jm in s);
        reorder(jw, e.atom, i.atom, jm in dp);
        stage(k, v at j: shared, vector(16));
        stage(q, dout, lse, delta at i: shared, cp_async, vector(16));
        pad(k: 16, v: 16, q: 16, dout: 16);
        pipeline(i, 2);
        bind(jw -> warp.x);
    }
}

schedule! {
    /// A thread a query, from global memory.
    pub queries_naive for query_gradients<f32 | f16 | bf16> {
        fits(D <= 64);
        tile(i = 64, j = 8);
        bind(i -> thread.x);
    }
    /// By `mma.sync`: a warp has 16 queries, and takes 32 keys at once.
    pub queries_mma for query_gradients<f16 | bf16> {
        fits(D <= 128);
        tile(i = 128, j = 32);
        split(i -> iw, im: 16);
        tensor_core(s: mma);
        tensor_core(dp: mma);
        tensor_core(sum_q: mma);
        reorder(iw, d.atom, j.atom, im in s);
        reorder(iw, e.atom, j.atom, im in dp);
        stage(q, dout at i: shared, vector(16));
        stage(k, v at j: shared, cp_async, vector(16));
        pad(k: 16, v: 16, q: 16, dout: 16);
        pipeline(j, 2);
        bind(iw -> warp.x);
    }
}

schedule! {
    /// By asynchronous MMA. Two warpgroups have 64 keys each, and keep their weights and the gradients of these in registers as the rows
    /// of two products; a third one copies.
    pub keys_wgmma on sm_90a for key_gradients<f16 | bf16> {
        fits(D <= 128);
        tile(j = 128, i = 64);
        split(j -> jw, jm: 64);
        tensor_core(s: wgmma(64, 64));
        tensor_core(dp: wgmma(64, 64));
        tensor_core(sum_v: wgmma(64, 128));
        tensor_core(sum_k: wgmma(64, 128));
        stage(k, v at j: shared, tma);
        stage(q, dout, lse, delta at i: shared, tma);
        swizzle(k: 128, v: 128, q: 128, dout: 128);
        pipeline(i, 2);
        issue(s: overwrite);
        issue(dp: overwrite);
        unroll(d.atom in s);
        unroll(e.atom in dp);
        produce(i: warpgroup);
        registers(24, 240);
        bind(jw -> warpgroup.x);
        vectorize(d.pair in dk);
        vectorize(e.pair in dv);
        exchange(dk, dv);
    }
    /// Heads of up to 64.
    pub keys_wgmma_narrow = keys_wgmma {
        fits(D <= 64);
        tile(i = 128);
        tensor_core(s: wgmma(64, 128));
        tensor_core(dp: wgmma(64, 128));
        tensor_core(sum_v: wgmma(64, 64));
        tensor_core(sum_k: wgmma(64, 64));
    }
    /// A CTA takes tile after tile.
    pub keys_wgmma_persistent = keys_wgmma { persistent(1); }
    /// 80 queries at once: of what a product reads, less is keys.
    pub keys_wgmma_80 = keys_wgmma {
        tile(i = 80);
        tensor_core(s: wgmma(64, 80));
        tensor_core(dp: wgmma(64, 80));
    }
    /// With half of the columns there are registers for three warpgroups.
    pub keys_wgmma_narrow3 = keys_wgmma_narrow {
        tile(j = 192, i = 64);
        tensor_core(s: wgmma(64, 64));
        tensor_core(dp: wgmma(64, 64));
        pipeline(i, 3);
        registers(32, 160);
    }
}

schedule! {
    /// By asynchronous MMA. Two warpgroups have 64 queries each.
    pub queries_wgmma on sm_90a for query_gradients<f16 | bf16> {
        fits(D <= 128);
        tile(i = 128, j = 128);
        split(i -> iw, im: 64);
        tensor_core(s: wgmma(64, 128));
        tensor_core(dp: wgmma(64, 128));
        tensor_core(sum_q: wgmma(64, 128));
        stage(q, dout at i: shared, tma);
        stage(k, v at j: shared, tma);
        fragment(lse, delta at i.o);
        swizzle(k: 128, v: 128, q: 128, dout: 128);
        pipeline(j, 2);
        issue(s: overwrite);
        issue(dp: overwrite);
        unroll(d.atom in s);
        unroll(e.atom in dp);
        produce(j: warpgroup);
        registers(24, 240);
        bind(iw -> warpgroup.x);
        vectorize(d.pair in dq);
        exchange(dq);
    }
    /// Heads of up to 64.
    pub queries_wgmma_narrow = queries_wgmma {
        fits(D <= 64);
        tensor_core(sum_q: wgmma(64, 64));
    }
    /// A CTA takes tile after tile.
    pub queries_wgmma_persistent = queries_wgmma { persistent(1); }
    /// Two CTAs share what they copy of keys and values.
    pub queries_wgmma_clustered = queries_wgmma { cluster(i: 2); }
    /// Three warpgroups, with half of the keys at once.
    pub queries_wgmma3 = queries_wgmma {
        tile(i = 192, j = 64);
        tensor_core(s: wgmma(64, 64));
        tensor_core(dp: wgmma(64, 64));
        pipeline(j, 3);
        registers(32, 160);
    }
    /// For whole steps of keys, whose ends are not looked for.
    pub queries_wgmma3_whole = queries_wgmma3 { multiple(N: 64); }
    /// Heads of up to 64.
    pub queries_wgmma_narrow_clustered = queries_wgmma_narrow { cluster(i: 2); }
    /// Three warpgroups.
    pub queries_wgmma_narrow3 = queries_wgmma_narrow {
        tile(i = 192, j = 64);
        tensor_core(s: wgmma(64, 64));
        tensor_core(dp: wgmma(64, 64));
        pipeline(j, 3);
        registers(32, 160);
    }
    /// For whole steps of keys.
    pub queries_wgmma_narrow3_whole = queries_wgmma_narrow3 { multiple(N: 64); }
}

schedule! {
    /// Each key with the queries that see it. Two lanes share a key, so that registers hold conditions, too.
    pub causal_keys_lanes for causal_key_gradients<f32 | f16 | bf16> {
        fits(D <= 64);
        tile(j = 64, i = 8);
        split(j -> jw, jl: 16);
        split(d -> dh, dl: 2);
        split(e -> eh, el: 2);
        reduce(s, dp: lane);
        bind(jw -> warp.x, jl -> lane.y, dl -> lane.x, el -> lane.x);
    }
    /// By `mma.sync`.
    pub causal_keys_mma for causal_key_gradients<f16 | bf16> = keys_mma {}
    /// By asynchronous MMA. The first keys are seen by the most queries, and come first.
    pub causal_keys_wgmma on sm_90a for causal_key_gradients<f16 | bf16> = keys_wgmma {}
    /// Heads of up to 64.
    pub causal_keys_wgmma_narrow on sm_90a for causal_key_gradients<f16 | bf16> = keys_wgmma_narrow {
        tile(i = 64);
        tensor_core(s: wgmma(64, 64));
        tensor_core(dp: wgmma(64, 64));
    }
    /// Three warpgroups.
    pub causal_keys_wgmma_narrow3 on sm_90a for causal_key_gradients<f16 | bf16> = keys_wgmma_narrow3 {}
}

schedule! {
    /// Each query with the keys that it sees.
    pub causal_queries_naive for causal_query_gradients<f32 | f16 | bf16> = queries_naive {}
    /// By `mma.sync`.
    pub causal_queries_mma for causal_query_gradients<f16 | bf16> = queries_mma {}
    /// By asynchronous MMA. The last queries see the most keys, and come first.
    pub causal_queries_wgmma on sm_90a for causal_query_gradients<f16 | bf16> = queries_wgmma { order(reversed); }
    /// Three warpgroups, with half of the keys at once.
    pub causal_queries_wgmma3 on sm_90a for causal_query_gradients<f16 | bf16> = queries_wgmma3 { order(reversed); }
    /// Heads of up to 64.
    pub causal_queries_wgmma_narrow on sm_90a for causal_query_gradients<f16 | bf16> = queries_wgmma_narrow {
        order(reversed);
    }
    /// Three warpgroups.
    pub causal_queries_wgmma_narrow3 on sm_90a for causal_query_gradients<f16 | bf16> = queries_wgmma_narrow3 {
        order(reversed);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    forward_lanes,
    forward_mma,
    forward_wgmma,
    forward_wgmma_frozen,
    forward_wgmma_narrow,
    causal_forward_lanes,
    causal_forward_mma,
    causal_forward_wgmma,
    causal_forward_wgmma_narrow,
    rows_lanes,
    keys_naive,
    keys_mma,
    keys_wgmma,
    keys_wgmma_narrow,
    keys_wgmma_persistent,
    keys_wgmma_80,
    keys_wgmma_narrow3,
    queries_naive,
    queries_mma,
    queries_wgmma,
    queries_wgmma_narrow,
    queries_wgmma_persistent,
    queries_wgmma_clustered,
    queries_wgmma3,
    queries_wgmma3_whole,
    queries_wgmma_narrow_clustered,
    queries_wgmma_narrow3,
    queries_wgmma_narrow3_whole,
    causal_keys_lanes,
    causal_keys_mma,
    causal_keys_wgmma,
    causal_keys_wgmma_narrow,
    causal_keys_wgmma_narrow3,
    causal_queries_naive,
    causal_queries_mma,
    causal_queries_wgmma,
    causal_queries_wgmma3,
    causal_queries_wgmma_narrow,
    causal_queries_wgmma_narrow3,
];
