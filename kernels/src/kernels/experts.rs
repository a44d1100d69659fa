//! A mixture of experts: rows gathered and multiplied by the matrix of their expert, then weighted and added up for their token.

use tilewright::prelude::*;

/// Rows of x, each times the matrix of its block's expert. Blocks have R rows, all of one expert; `token` is −1 where a block has fewer, and
/// `expert` is −1 where it has none. P is 1: a loop that a block without an expert leaves out.
#[tile_kernel]
pub fn expert_rows<T: Float>(
    x: &Tensor<T, S, K>,
    w: &Tensor<T, E, K, N>,
    token: &Tensor<i32, Z, R>,
    expert: &Tensor<i32, Z>,
    row: &mut Tensor<f32, Z, R, P, N>,
) {
    let (z, i, j) = program_tile(Z, R, N);
    let t = load(token, [z, i]);
    for p in tiles(P).below(select(load(expert, [z]) < 0, 0, P)) {
        let mut acc = zeros::<f32>([z, i, j]);
        for k in tiles(K) {
            acc = dot(load(x, [t, k]), load(w, [load(expert, [z]), k, j]), acc);
        }
        store(row, [z, i, p, j], acc + zeros::<f32>([z, i, p, j]));
    }
}

/// The same product of rows that stand in the blocks already.
#[tile_kernel]
pub fn block_rows<T: Float>(
    x: &Tensor<T, Z, R, K>,
    w: &Tensor<T, E, K, N>,
    expert: &Tensor<i32, Z>,
    row: &mut Tensor<f32, Z, R, P, N>,
) {
    let (z, i, j) = program_tile(Z, R, N);
    for p in tiles(P).below(select(load(expert, [z]) < 0, 0, P)) {
        let mut acc = zeros::<f32>([z, i, j]);
        for k in tiles(K) {
            acc = dot(load(x, [z, i, k]), load(w, [load(expert, [z]), k, j]), acc);
        }
        store(row, [z, i, p, j], acc + zeros::<f32>([z, i, p, j]));
    }
}

/// The sum of the rows of each token, weighted: `place` says where they are, and −1 that there is none.
#[tile_kernel]
pub fn expert_sums<T: Float>(
    row: &Tensor<f32, M, N>,
    place: &Tensor<i32, S, C>,
    gate: &Tensor<f32, S, C>,
    y: &mut Tensor<T, S, N>,
) {
    let (s, j) = program_tile(S, N);
    let c = whole(C);
    let own = load(row, [load(place, [s, c]), j]);
    store(y, [s, j], sum(load(gate, [s, c]) * own, c).cast::<T>());
}

schedule! {
    /// Tiles of 64 by 64 pass through shared memory, rows of tokens turned on their way; a thread has 4 by 4 sums.
    pub tiled for expert_rows<f32> {
        tile(i = 64, j = 64, p = 1, k = 16);
        split(i -> il, ir: 4);
        split(j -> jl, jr: 4);
        reorder(k, ir, jr);
        stage(x at k: shared, transposed, vector(16));
        stage(w at k: shared, cp_async, vector(16));
        pad(x: 16);
        pipeline(k, 2);
        bind(il -> thread.y, jl -> thread.x);
        unroll(k.t);
        vectorize(jr);
        vectorize(ir in acc);
        occupancy(3);
    }
}

schedule! {
    /// On tensor cores, for blocks of 16 slots: rows that `token` names are copied like those of a matrix, three steps ahead.
    pub mma for expert_rows<f16 | bf16> {
        tile(i = 16, j = 128, p = 1, k = 64);
        split(j -> jw, jm: 32);
        tensor_core(acc: mma);
        reorder(jw, k.atom, i.atom, jm);
        stage(x, w at k: shared, cp_async, vector(16));
        pad(x: 16, w: 16);
        pipeline(k, 4);
        bind(jw -> warp.x);
        unroll(k.atom);
        vectorize(j.pair in row);
        occupancy(2);
    }
    /// With 64 rows, for larger blocks.
    pub mma_64 = mma {
        drop(occupancy);
        tile(i = 64, k = 32);
        split(i -> iw, im: 32);
        split(j -> jw, jm: 64);
        reorder(iw, jw, k.atom, im, jm);
        bind(iw -> warp.y, jw -> warp.x);
    }
    /// By asynchronous MMA, which reads both copies from shared memory itself.
    pub wgmma on sm_90a for expert_rows<f16 | bf16> {
        tile(i = 64, j = 128, p = 1, k = 64);
        tensor_core(acc: wgmma(64, 128));
        stage(x, w at k: shared, cp_async, vector(16));
        swizzle(x: 128, w: 128);
        pipeline(k, 4);
        issue(acc: overwrite);
        unroll(k.atom);
        vectorize(j.pair in row);
    }
    /// Two warpgroups with 64 rows each share what is copied of an expert: for blocks of 128.
    pub two_warpgroups = wgmma {
        tile(i = 128);
        split(i -> iw, im: 64);
        bind(iw -> warpgroup.x);
        pipeline(k, 3);
    }
}

schedule! {
    /// Rows and matrices come by tensor maps: two warpgroups multiply, a third one copies. A CTA takes tile after tile.
    pub in_blocks on sm_90a for block_rows<f16 | bf16> {
        tile(i = 128, j = 256, p = 1, k = 64);
        split(i -> iw, im: 64);
        tensor_core(acc: wgmma(64, 256));
        stage(x, w at k: shared, tma);
        swizzle(x: 128, w: 128);
        pipeline(k, 3);
        unroll(k.atom);
        vectorize(j.pair in row);
        produce(k: warpgroup);
        issue(acc: overwrite, in_flight(1));
        bind(iw -> warpgroup.x);
        registers(24, 240);
        persistent(1);
    }
}

schedule! {
    /// Four elements a thread.
    pub sums for expert_sums<f32 | f16 | bf16> {
        tile(s = 1, j = 1024);
        split(j -> jt, jv: 4);
        bind(jt -> thread.x);
        reorder(c, jv);
        vectorize(jv);
    }
}

schedule! {
    /// Begins while the launch before it ends.
    pub mma_early on sm_90 = mma { launch(dependent); }
    /// Begins while the launch before it ends.
    pub sums_early on sm_90 = sums { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![tiled, mma, mma_64, wgmma, two_warpgroups, in_blocks, sums, mma_early, sums_early];
