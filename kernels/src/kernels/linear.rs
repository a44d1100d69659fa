//! A linear layer: a matrix product whose second factor lies in rows of what is summed, and a bias.

use tilewright::prelude::*;

/// y = x·wᵀ, accumulated in f32.
#[tile_kernel]
pub fn linear<T: Float>(x: &Tensor<T, M, K>, weight: &Tensor<T, N, K>, y: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, k]), load(weight, [j, k]), acc);
    }
    store(y, [i, j], acc.cast::<T>());
}

/// y = x·wᵀ + b, accumulated in f32.
#[tile_kernel]
pub fn linear_bias<T: Float>(
    x: &Tensor<T, M, K>,
    weight: &Tensor<T, N, K>,
    bias: &Tensor<T, N>,
    y: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, k]), load(weight, [j, k]), acc);
    }
    store(y, [i, j], (acc + load(bias, [j]).cast::<f32>()).cast::<T>());
}

schedule! {
    /// A warp an element of y, for few rows of x: each row of the weight is read by neighbouring lanes, eight loads ahead. With
    /// `occupancy(2)` the assembler takes registers for them.
    pub row for linear<f32 | f16 | bf16> {
        tile(i = 1, j = 8, k = 1024);
        split(k.t -> ko, kl, kv: 32, 4);
        reduce(acc: lane);
        bind(j -> warp.x, kl -> lane.x);
        unroll(ko);
        vectorize(kv);
        occupancy(2);
    }
    /// The same with a bias.
    pub row_bias for linear_bias<f32 | f16 | bf16> = row {}
    /// Sixteen bytes of 16-bit elements a load.
    pub row_wide for linear<f16 | bf16> = row {
        tile(k = 2048);
        split(k.t -> ko, kl, kv: 32, 8);
    }
    /// The same with a bias.
    pub row_wide_bias for linear_bias<f16 | bf16> = row_wide {}
    /// A warp eight elements of a column of y: what it reads of the weight serves them all.
    pub rows = row {
        drop(occupancy);
        tile(i = 8, k = 256);
        reorder(ko, i, kv);
        unroll(i in acc);
    }
    /// The same with a bias.
    pub rows_bias for linear_bias<f32 | f16 | bf16> = rows {}
}

// On CUDA cores, for f32.
schedule! {
    /// Tiles of 128 by 128 pass through shared memory, turned on their way and two stages deep; a thread has 8 by 8 sums.
    pub tiled for linear<f32> {
        tile(i = 128, j = 128, k = 16);
        split(i -> iw, ih, il, ir: 2, 4, 4);
        split(j -> jw, jh, jl, jr: 2, 8, 4);
        split(jl -> jlo, jli: 2);
        reorder(k, ih, ir, jh, jr);
        stage(x, weight at k: shared, transposed, vector(16));
        pad(x: 16, weight: 16);
        pipeline(k, 2);
        bind(iw -> warp.y, jw -> warp.x, jli -> lane.x, il -> lane.y, jlo -> lane.z);
        unroll(k.t);
        vectorize(jr);
        vectorize(ir in acc);
        occupancy(2);
    }
    /// The same with a bias.
    pub tiled_bias for linear_bias<f32> = tiled {}
    /// Half of the tile, and eight CTAs take an eighth of K each: for products of few tiles.
    pub tiled_split = tiled {
        tile(i = 64);
        split_k(k, 8);
        occupancy(3);
    }
    /// The same with a bias.
    pub tiled_split_bias for linear_bias<f32> = tiled_split {}
}

// On tensor cores.
schedule! {
    /// A warp multiplies 16×16 by 16×8 at once, from copies in shared memory; operands of the next step are loaded meanwhile.
    pub mma for linear<f16 | bf16> {
        tile(i = 128, j = 128, k = 32);
        split(i -> iw, im: 64);
        split(j -> jw, jm: 32);
        tensor_core(acc: mma);
        reorder(iw, jw, k.atom, im, jm);
        stage(x, weight at k: shared, cp_async, vector(16));
        swizzle(x: 64, weight: 64);
        fragment(x, weight at k.atom);
        pipeline(k, 3);
        pipeline(k.atom, 2);
        bind(iw -> warp.y, jw -> warp.x);
        vectorize(j.pair);
        exchange(y);
        order(grouped(8));
    }
    /// The same with a bias.
    pub mma_bias for linear_bias<f16 | bf16> = mma {}
    /// A flat tile, 32 rows, for products of few rows: four CTAs take a quarter of K each.
    pub mma_flat = mma {
        tile(i = 32, j = 64, k = 64);
        split(i -> iw, im: 32);
        split(j -> jw, jm: 16);
        swizzle(x: 128, weight: 128);
        split_k(k, 4);
        drop(order, exchange(y));
    }
    /// The same with a bias.
    pub mma_flat_bias for linear_bias<f16 | bf16> = mma_flat {}
    /// Hopper: two warpgroups multiply 64×16 by 16×256 at once; a third one copies by tensor maps. A CTA takes tile after tile.
    pub wgmma on sm_90a for linear<f16 | bf16> {
        tile(i = 128, j = 256, k = 64);
        split(i -> iw, im: 64);
        tensor_core(acc: wgmma(64, 256));
        stage(x, weight at k: shared, tma);
        swizzle(x: 128, weight: 128);
        pipeline(k, 3);
        unroll(k.atom);
        vectorize(j.pair);
        produce(k: warpgroup);
        issue(acc: overwrite, in_flight(1));
        bind(iw -> warpgroup.x);
        registers(24, 240);
        persistent(1);
        order(grouped(16));
        exchange(y);
    }
    /// The same with a bias. What a thread adds to its columns is not held for all of them.
    pub wgmma_bias for linear_bias<f16 | bf16> = wgmma { reorder(j.group, i.half in y); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    row,
    row_bias,
    row_wide,
    row_wide_bias,
    rows,
    rows_bias,
    tiled,
    tiled_bias,
    tiled_split,
    tiled_split_bias,
    mma,
    mma_bias,
    mma_flat,
    mma_flat_bias,
    wgmma,
    wgmma_bias
];
