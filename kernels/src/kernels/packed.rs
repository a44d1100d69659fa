//! A linear layer whose weights have four bits, eight of them in a word, with a scale and a zero for each group of 128.

use tilewright::prelude::*;

/// y = x·((q − zero) · scale)ᵀ. Bits 4e to 4e+3 of word w of a group are its weight 16e + w. Zeros are below 128.
#[tile_kernel]
pub fn linear_i4<T: Float>(
    x: &Tensor<T, M, { 128 * G }>,
    weight: &Tensor<u32, N, { 16 * G }>,
    scale: &Tensor<T, N, G>,
    zero: &Tensor<u8, N, G>,
    y: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let (e, w) = whole(8, 16);
    let mut acc = zeros::<f32>([i, j]);
    for g in tiles(G) {
        let q = load(weight, [j, 16 * g + w]) >> (4 * e) & 15;
        let z = load(zero, [j, g]).cast::<u32>() & 127;
        let v = (q.cast::<T>() - z.cast::<T>()) * load(scale, [j, g]);
        acc = dot(load(x, [i, 128 * g + 16 * e + w]), v, acc);
    }
    store(y, [i, j], acc.cast::<T>());
}

/// As `linear_i4`, but a scale multiplies the sum of its group.
#[tile_kernel]
pub fn linear_i4_groups<T: Float>(
    x: &Tensor<T, M, { 128 * G }>,
    weight: &Tensor<u32, N, { 16 * G }>,
    scale: &Tensor<T, N, G>,
    zero: &Tensor<u8, N, G>,
    y: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let (e, w) = whole(8, 16);
    let mut acc = zeros::<f32>([i, j]);
    for g in tiles(G) {
        let q = load(weight, [j, 16 * g + w]) >> (4 * e) & 15;
        let z = load(zero, [j, g]).cast::<u32>() & 127;
        let v = q.cast::<T>() - z.cast::<T>();
        let part = dot(load(x, [i, 128 * g + 16 * e + w]), v, zeros::<f32>([i, j, g]));
        acc += sum(part * load(scale, [j, g]).cast::<f32>(), g);
    }
    store(y, [i, j], acc.cast::<T>());
}

/// As `linear_i4`, of words that hold eight weights in their order, as those of GPTQ do.
#[tile_kernel]
pub fn linear_i4_in_order<T: Float>(
    x: &Tensor<T, M, { 128 * G }>,
    weight: &Tensor<u32, N, { 16 * G }>,
    scale: &Tensor<T, N, G>,
    zero: &Tensor<u8, N, G>,
    y: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let k = whole(128);
    let mut acc = zeros::<f32>([i, j]);
    for g in tiles(G) {
        let word = load(weight, [j, 16 * g + k / 8]);
        let q = (word >> (4 * (k % 8)) & 15).cast::<T>() - load(zero, [j, g]).cast::<T>();
        acc = dot(load(x, [i, 128 * g + k]), q * load(scale, [j, g]), acc);
    }
    store(y, [i, j], acc.cast::<T>());
}

schedule! {
    /// A thread an element.
    pub plain for linear_i4<f32 | f16 | bf16> {
        tile(i = 8, j = 16, g = 1);
        bind(i -> thread.y, j -> thread.x);
    }
    /// Tensor cores: weights are the rows of what they multiply, and lanes compute them. A warp has 16 of them.
    pub mma for linear_i4<f16 | bf16> {
        tile(i = 64, j = 64, g = 1);
        split(j -> jw, jm: 16);
        tensor_core(acc: mma; swapped);
        stage(x, weight at g: shared, cp_async, vector(16));
        swizzle(x: 128);
        pad(weight: 32);
        pipeline(g, 3);
        bind(jw -> warp.x);
    }
    /// Hopper: two warpgroups have 64 rows of weights each, and a third copies.
    pub wgmma on sm_90a for linear_i4<f16 | bf16> {
        tile(i = 256, j = 128, g = 1);
        split(j -> jw, jm: 64);
        tensor_core(acc: wgmma(64, 256); swapped);
        stage(x, weight at g: shared, tma);
        swizzle(x: 128);
        pipeline(g, 2);
        unroll(w.atom, e);
        produce(g: warpgroup);
        bind(jw -> warpgroup.x);
        registers(24, 240);
        exchange(y);
    }
    /// For 17 to 128 rows of x.
    pub wgmma_flat = wgmma {
        tile(i = 64);
        tensor_core(acc: wgmma(64, 64); swapped);
        pipeline(g, 4);
    }
    /// Few rows of x: a warp a group of 128 points, and four of them add up what they have. Copies have three stages.
    pub few for linear_i4_groups<f16 | bf16> {
        tile(i = 8, j = 32, g = 4);
        tensor_core(part: mma; swapped);
        stage(x, weight at g: shared, cp_async, vector(16));
        stage(scale at g: shared, cp_async, vector(8));
        stage(zero at g: shared, cp_async, vector(4));
        swizzle(x: 128);
        pad(weight: 32);
        pipeline(g, 3);
        reduce(acc: warp);
        bind(g.t -> warp.x);
    }
    /// For 9 to 16 rows.
    pub few_16 = few {
        tile(i = 16);
        pipeline(g, 2);
    }
    /// For 17 to 32 rows.
    pub few_32 = few_16 { tile(i = 32); }
    /// A thread an element.
    pub plain_groups for linear_i4_groups<f32 | f16 | bf16> {
        tile(i = 8, j = 16, g = 1);
        bind(i -> thread.y, j -> thread.x);
    }
    /// A thread an element.
    pub plain_in_order for linear_i4_in_order<f32 | f16 | bf16> {
        tile(i = 8, j = 16, g = 1);
        bind(i -> thread.y, j -> thread.x);
    }
    /// Tensor cores.
    pub mma_in_order for linear_i4_in_order<f16 | bf16> {
        tile(i = 64, j = 64, g = 1);
        split(j -> jw, jm: 16);
        tensor_core(acc: mma; swapped);
        stage(x at g: shared, cp_async, vector(16));
        swizzle(x: 128);
        pipeline(g, 3);
        bind(jw -> warp.x);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    plain,
    mma,
    wgmma,
    wgmma_flat,
    few,
    few_16,
    few_32,
    plain_groups,
    plain_in_order,
    mma_in_order
];
