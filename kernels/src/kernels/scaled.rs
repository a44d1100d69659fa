//! A linear layer of floats of eight bits, with a scale for blocks of both factors.

use tilewright::prelude::*;

/// y = Σ over groups of 128 of (x·wᵀ) · xs · ws: a scale for each group of a row of x, and for 128 by 128 of the weight.
#[tile_kernel]
pub fn linear_f8<T: Float>(
    x: &Tensor<f8, M, { 128 * G }>,
    xs: &Tensor<f32, G, M>,
    weight: &Tensor<f8, { 128 * H }, { 128 * G }>,
    ws: &Tensor<f32, H, G>,
    y: &mut Tensor<T, M, { 128 * H }>,
) {
    let (i, h) = program_tile(M, H);
    let (j, k) = whole(128, 128);
    let mut acc = zeros::<f32>([i, h, j]);
    for g in tiles(G) {
        let a = load(x, [i, 128 * g + k]);
        let b = load(weight, [128 * h + j, 128 * g + k]);
        let part = dot(a, b, zeros::<f32>([i, h, j, g]));
        acc += sum(part * (load(xs, [g, i]) * load(ws, [h, g])), g);
    }
    store(y, [i, 128 * h + j], acc.cast::<T>());
}

schedule! {
    /// A thread an element.
    pub plain on sm_89 for linear_f8<f32 | f16 | bf16> {
        tile(i = 2, h = 1, g = 1);
        bind(i -> thread.y, j -> thread.x);
    }
    /// Hopper: three warpgroups have 64 rows each, and a fourth copies. Scales of x come with them, and that of the weight is on its way while
    /// the products of its block are made.
    pub wgmma on sm_90a for linear_f8<f32 | f16 | bf16> {
        tile(i = 192, h = 1, g = 1);
        split(i -> iw, im: 64);
        tensor_core(part: wgmma(64, 128));
        stage(x, weight, xs at g: shared, tma);
        swizzle(x: 128, weight: 128);
        fragment(ws at g);
        pipeline(g, 5);
        unroll(k.atom);
        vectorize(j.pair in y);
        produce(g: warpgroup);
        issue(part: overwrite);
        bind(iw -> warpgroup.x);
        registers(32, 160);
        persistent(1);
        order(grouped(8));
    }
    /// Lanes exchange their elements of y.
    pub wgmma_narrow for linear_f8<f16 | bf16> = wgmma { exchange(y); }
    /// One warpgroup, for few rows of x.
    pub wgmma_flat = wgmma {
        tile(i = 64);
        drop(registers);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![plain, wgmma, wgmma_narrow, wgmma_flat];
