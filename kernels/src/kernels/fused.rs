//! Linear layers with what stands around them: the norm before, the gate or the sum behind. One pass over the weight.

use super::linear;
use tilewright::prelude::*;

/// y = norm(x)·wᵀ, where norm(x) = x / sqrt(mean(x²) + eps) · g for each row. The scale of a row comes out of the sum, so that both are
/// summed up in one pass.
#[tile_kernel]
pub fn norm_linear<T: Float>(
    x: &Tensor<T, M, K>,
    gain: &Tensor<T, K>,
    weight: &Tensor<T, N, K>,
    y: &mut Tensor<T, M, N>,
    eps: f32,
) {
    let (i, j) = program_tile(M, N);
    let mut square = zeros::<f32>([i]);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        let v = load(x, [i, k]).cast::<f32>();
        square += sum(v * v, k);
        acc += sum(v * load(gain, [k]).cast::<f32>() * load(weight, [j, k]).cast::<f32>(), k);
    }
    let scale = rsqrt(square / max(K.cast::<f32>(), 1.0) + eps);
    store(y, [i, j], (acc * scale).cast::<T>());
}

/// y = silu(norm(x)·gateᵀ) · (norm(x)·upᵀ).
#[tile_kernel]
pub fn norm_swiglu<T: Float>(
    x: &Tensor<T, M, K>,
    gain: &Tensor<T, K>,
    gate: &Tensor<T, N, K>,
    up: &Tensor<T, N, K>,
    y: &mut Tensor<T, M, N>,
    eps: f32,
) {
    let (i, j) = program_tile(M, N);
    let mut square = zeros::<f32>([i]);
    let mut g = zeros::<f32>([i, j]);
    let mut u = zeros::<f32>([i, j]);
    for k in tiles(K) {
        let v = load(x, [i, k]).cast::<f32>();
        let z = v * load(gain, [k]).cast::<f32>();
        square += sum(v * v, k);
        g += sum(z * load(gate, [j, k]).cast::<f32>(), k);
        u += sum(z * load(up, [j, k]).cast::<f32>(), k);
    }
    let scale = rsqrt(square / max(K.cast::<f32>(), 1.0) + eps);
    let a = g * scale;
    store(y, [i, j], (a / (1.0 + exp(-a)) * (u * scale)).cast::<T>());
}

/// y = y + x·wᵀ.
#[tile_kernel]
pub fn linear_add<T: Float>(x: &Tensor<T, M, K>, weight: &Tensor<T, N, K>, y: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, k]), load(weight, [j, k]), acc);
    }
    store(y, [i, j], (acc + load(y, [i, j]).cast::<f32>()).cast::<T>());
}

/// y = silu(y) · (x·wᵀ).
#[tile_kernel]
pub fn linear_gated<T: Float>(x: &Tensor<T, M, K>, weight: &Tensor<T, N, K>, y: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, k]), load(weight, [j, k]), acc);
    }
    let a = load(y, [i, j]).cast::<f32>();
    // Its square is 1 / (1 + exp(-a)): a division is a call.
    let r = rsqrt(1.0 + exp(-a));
    store(y, [i, j], (a * r * r * acc).cast::<T>());
}

/// y = silu(x·gateᵀ) · (x·upᵀ).
#[tile_kernel]
pub fn swiglu_products<T: Float>(
    x: &Tensor<T, M, K>,
    gate: &Tensor<T, N, K>,
    up: &Tensor<T, N, K>,
    y: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut g = zeros::<f32>([i, j]);
    let mut u = zeros::<f32>([i, j]);
    for k in tiles(K) {
        let v = load(x, [i, k]);
        g = dot(v, load(gate, [j, k]), g);
        u = dot(v, load(up, [j, k]), u);
    }
    // Its square is 1 / (1 + exp(-g)): a division is a call.
    let r = rsqrt(1.0 + exp(-g));
    store(y, [i, j], (g * r * r * u).cast::<T>());
}

// One row of x, or few. With `occupancy(2)` the assembler takes registers for all loads of a step, and puts them ahead of what is computed.
schedule! {
    /// A warp an element of y: each row of the weight is read by neighbouring lanes, eight loads ahead.
    pub norm_row for norm_linear<f32 | f16 | bf16> {
        tile(i = 1, j = 8, k = 1024);
        split(k.t -> ko, kl, kv: 32, 4);
        reduce(square, acc: lane);
        bind(j -> warp.x, kl -> lane.x);
        unroll(ko);
        vectorize(kv);
        occupancy(2);
    }
    /// Sixteen bytes of 16-bit elements a load, four ahead.
    pub norm_row_wide for norm_linear<f16 | bf16> = norm_row {
        split(k.t -> ko, kl, kv: 32, 8);
    }
    /// A warp eight elements of a column of y: what it reads of the weight serves them all.
    pub norm_rows = norm_row {
        tile(i = 8, k = 256);
        reorder(ko, i, kv);
        unroll(i in acc);
    }
}

schedule! {
    /// A warp an element of y: each row of both weights is read by neighbouring lanes, four loads of each ahead.
    pub swiglu_row for norm_swiglu<f32 | f16 | bf16> {
        tile(i = 1, j = 8, k = 512);
        split(k.t -> ko, kl, kv: 32, 4);
        reduce(square, g, u: lane);
        bind(j -> warp.x, kl -> lane.x);
        unroll(ko);
        vectorize(kv);
        occupancy(2);
    }
    /// Sixteen bytes of 16-bit elements a load.
    pub swiglu_row_wide for norm_swiglu<f16 | bf16> = swiglu_row {
        tile(k = 1024);
        split(k.t -> ko, kl, kv: 32, 8);
    }
    /// A warp eight elements of a column of y: what it reads of the weights serves them all.
    pub swiglu_rows = swiglu_row {
        tile(i = 8, k = 256);
        reorder(ko, i, kv);
        unroll(i in g);
        unroll(i in u);
    }
}

schedule! {
    /// As [`row`](crate::kernels::linear::row).
    pub add_row for linear_add<f32 | f16 | bf16> = linear::row {}
    /// As [`row_wide`](crate::kernels::linear::row_wide).
    pub add_row_wide for linear_add<f16 | bf16> = linear::row_wide {}
    /// As [`rows`](crate::kernels::linear::rows), with registers for all loads of a step.
    pub add_rows for linear_add<f32 | f16 | bf16> = linear::rows { occupancy(2); }
}

schedule! {
    /// Both products at once: what is copied of x serves both, and neither is stored before the other comes.
    pub swiglu_wgmma on sm_90a for swiglu_products<f16 | bf16> {
        tile(i = 128, j = 128, k = 64);
        split(i -> iw, im: 64);
        tensor_core(g: wgmma(64, 128));
        tensor_core(u: wgmma(64, 128));
        stage(x, gate, up at k: shared, tma);
        swizzle(x: 128, gate: 128, up: 128);
        pipeline(k, 4);
        unroll(k.atom);
        vectorize(j.pair);
        produce(k: warpgroup);
        issue(g: overwrite, in_flight(1));
        issue(u: overwrite, in_flight(1));
        bind(iw -> warpgroup.x);
        registers(24, 240);
        persistent(1);
        order(grouped(16));
        exchange(y);
    }
    /// Stored from registers: for many tiles.
    pub swiglu_wgmma_many = swiglu_wgmma { drop(exchange(y)); }
}

// Behind another launch.
schedule! {
    /// Begins while the launch before it ends.
    pub norm_row_early on sm_90 = norm_row { launch(dependent); }
    /// Begins while the launch before it ends.
    pub norm_row_wide_early on sm_90 = norm_row_wide { launch(dependent); }
    /// Begins while the launch before it ends.
    pub norm_rows_early on sm_90 = norm_rows { launch(dependent); }
    /// Begins while the launch before it ends.
    pub swiglu_row_early on sm_90 = swiglu_row { launch(dependent); }
    /// Begins while the launch before it ends.
    pub swiglu_row_wide_early on sm_90 = swiglu_row_wide { launch(dependent); }
    /// Begins while the launch before it ends.
    pub swiglu_rows_early on sm_90 = swiglu_rows { launch(dependent); }
    /// Begins while the launch before it ends.
    pub add_row_early on sm_90 = add_row { launch(dependent); }
    /// Begins while the launch before it ends.
    pub add_row_wide_early on sm_90 = add_row_wide { launch(dependent); }
    /// Begins while the launch before it ends.
    pub add_rows_early on sm_90 = add_rows { launch(dependent); }
}

// Of many rows. Each thread adds, or multiplies, the pairs of the sum that it has.
schedule! {
    /// As [`tiled`](crate::kernels::linear::tiled).
    pub add_tiled for linear_add<f32> = linear::tiled {}
    /// As [`tiled_split`](crate::kernels::linear::tiled_split).
    pub add_tiled_split for linear_add<f32> = linear::tiled_split {}
    /// As [`mma`](crate::kernels::linear::mma).
    pub add_mma for linear_add<f16 | bf16> = linear::mma { drop(exchange(y)); }
    /// As [`mma_flat`](crate::kernels::linear::mma_flat).
    pub add_mma_flat for linear_add<f16 | bf16> = linear::mma_flat {}
    /// As [`wgmma`](crate::kernels::linear::wgmma).
    pub add_wgmma for linear_add<f16 | bf16> = linear::wgmma { drop(exchange(y)); }
}
schedule! {
    /// As [`tiled`](crate::kernels::linear::tiled).
    pub gated_tiled for linear_gated<f32> = linear::tiled {}
    /// As [`tiled_split`](crate::kernels::linear::tiled_split).
    pub gated_tiled_split for linear_gated<f32> = linear::tiled_split {}
    /// As [`mma`](crate::kernels::linear::mma).
    pub gated_mma for linear_gated<f16 | bf16> = linear::mma { drop(exchange(y)); }
    /// As [`mma_flat`](crate::kernels::linear::mma_flat).
    pub gated_mma_flat for linear_gated<f16 | bf16> = linear::mma_flat {}
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    norm_row,
    norm_row_wide,
    norm_rows,
    swiglu_row,
    swiglu_row_wide,
    swiglu_rows,
    add_row,
    add_row_wide,
    add_rows,
    norm_row_early,
    norm_row_wide_early,
    norm_rows_early,
    swiglu_row_early,
    swiglu_row_wide_early,
    swiglu_rows_early,
    add_row_early,
    add_row_wide_early,
    add_rows_early,
    add_tiled,
    add_tiled_split,
    add_mma,
    add_mma_flat,
    add_wgmma,
    gated_tiled,
    gated_tiled_split,
    gated_mma,
    gated_mma_flat,
    swiglu_wgmma,
    swiglu_wgmma_many
];
