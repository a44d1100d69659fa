//! A linear layer of integers of eight bits, with a scale for each row of both factors.

use tilewright::prelude::*;

/// y = (x·wᵀ) · xs · ws. The products are summed in i32, which is exact.
#[tile_kernel]
pub fn linear_i8<T: Float>(
    x: &Tensor<i8, M, K>,
    xs: &Tensor<f32, M>,
    weight: &Tensor<i8, N, K>,
    ws: &Tensor<f32, N>,
    y: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<i32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, k]), load(weight, [j, k]), acc);
    }
    store(y, [i, j], (acc.cast::<f32>() * load(xs, [i]) * load(ws, [j])).cast::<T>());
}

schedule! {
    /// A warp an element of y, for few rows of x: a lane has sixteen bytes of a row of the weight at once.
    pub row for linear_i8<f32 | f16 | bf16> {
        tile(i = 1, j = 8, k = 2048);
        split(k.t -> ko, kl, kv: 32, 16);
        reduce(acc: lane);
        bind(j -> warp.x, kl -> lane.x);
        unroll(ko);
        vectorize(kv);
    }
    /// A warp eight elements of a column of y: what it reads of the weight serves them all.
    pub rows = row {
        tile(i = 8, k = 512);
        reorder(ko, i, kv);
        unroll(i in acc);
    }
    /// A warp multiplies 16×32 by 32×8 at once, from copies in shared memory; operands of the next step are loaded meanwhile.
    pub mma for linear_i8<f32 | f16 | bf16> {
        tile(i = 128, j = 128, k = 64);
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
        order(grouped(8));
    }
    /// A flat tile, 32 rows, for products of few rows.
    pub mma_flat = mma {
        tile(i = 32, j = 64, k = 128);
        split(i -> iw, im: 32);
        split(j -> jw, jm: 16);
        swizzle(x: 128, weight: 128);
        drop(order);
    }
    /// Hopper: two warpgroups multiply 64×32 by 32×256 at once; a third one copies by tensor maps. A CTA takes tile after tile.
    pub wgmma on sm_90a for linear_i8<f32 | f16 | bf16> {
        tile(i = 128, j = 256, k = 128);
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
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![row, rows, mma, mma_flat, wgmma];
