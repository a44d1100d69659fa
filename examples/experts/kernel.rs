//! A mixture of experts: rows gathered, multiplied by a matrix of their expert, weighted and added to the rows of their tokens.

use tilewright::prelude::*;

/// Adds to row t of y what the experts of token t make of row t of x. Slots come in blocks of R, all of one expert; `token` is −1 where a
/// block has fewer.
#[tile_kernel]
pub fn experts<T: Float>(
    x: &Tensor<T, S, K>,
    w: &Tensor<T, E, K, N>,
    token: &Tensor<i32, Z, R>,
    expert: &Tensor<i32, Z>,
    gate: &Tensor<f32, Z, R>,
    y: &mut Tensor<f32, S, N>,
) {
    let (z, i, j) = program_tile(Z, R, N);
    let t = load(token, [z, i]);
    let mut acc = zeros::<f32>([z, i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [t, k]), load(w, [load(expert, [z]), k, j]), acc);
    }
    atomic_add(y, [t, j], acc * load(gate, [z, i]));
}

schedule! {
    /// An element a thread, from global memory.
    pub naive for experts<f32 | f16 | bf16> {
        tile(i = 16, j = 16, k = 16);
        bind(i -> thread.y, j -> thread.x);
    }
    /// Rows of tokens and of the expert's matrix in shared memory, two steps ahead.
    pub staged = naive {
        stage(x, w at k: shared);
        pipeline(k, 2);
    }
}

schedule! {
    /// On tensor cores: rows that `token` names are copied like those of a matrix, three steps ahead.
    pub mma for experts<f16 | bf16> {
        tile(i = 64, j = 128, k = 32);
        split(i -> iw, im: 32);
        split(j -> jw, jm: 64);
        tensor_core(acc: mma);
        reorder(iw, jw, k.atom, im, jm);
        stage(x, w at k: shared, cp_async, vector(16));
        pad(x: 16, w: 16);
        pipeline(k, 4);
        bind(iw -> warp.y, jw -> warp.x);
        unroll(k.atom);
    }
    /// By asynchronous MMA, which reads both copies from shared memory itself.
    pub wgmma on sm_90a for experts<f16 | bf16> {
        tile(i = 64, j = 128, k = 64);
        tensor_core(acc: wgmma(64, 128));
        stage(x, w at k: shared, cp_async, vector(16));
        swizzle(x: 128, w: 128);
        pipeline(k, 4);
        unroll(k.atom);
    }
    /// Two warpgroups with 64 rows each share what is copied of an expert: for blocks of 128.
    pub two_warpgroups = wgmma {
        tile(i = 128);
        split(i -> iw, im: 64);
        bind(iw -> warpgroup.x);
        pipeline(k, 3);
        issue(acc: overwrite);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![naive, staged, mma, wgmma, two_warpgroups];
