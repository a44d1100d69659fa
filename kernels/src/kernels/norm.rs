//! Rows brought to a common scale: root mean square, and mean with variance.

use tilewright::prelude::*;

/// y = x / sqrt(mean(x²) + eps) · w, for each row of x.
#[tile_kernel]
pub fn rms_norm<T: Float>(x: &Tensor<T, R, N>, weight: &Tensor<T, N>, y: &mut Tensor<T, R, N>, eps: f32) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]).cast::<f32>();
    let scale = rsqrt(sum(v * v, n) / N.cast::<f32>() + eps);
    store(y, [r, n], (v * scale * load(weight, [n]).cast::<f32>()).cast::<T>());
}

/// y = (x − mean) / sqrt(variance + eps) · w + b, for each row of x.
#[tile_kernel]
pub fn layer_norm<T: Float>(
    x: &Tensor<T, R, N>,
    weight: &Tensor<T, N>,
    bias: &Tensor<T, N>,
    y: &mut Tensor<T, R, N>,
    eps: f32,
) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]).cast::<f32>();
    let mean = sum(v, n) / N.cast::<f32>();
    let scale = rsqrt(sum((v - mean) * (v - mean), n) / N.cast::<f32>() + eps);
    let z = (v - mean) * scale * load(weight, [n]).cast::<f32>() + load(bias, [n]).cast::<f32>();
    store(y, [r, n], z.cast::<T>());
}

schedule! {
    /// A row a warp, kept in registers: read once, reduced by shuffles. Rows of up to 1024 elements.
    pub rms_warp for rms_norm<f32 | f16 | bf16> {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl, nv: 32, 4);
        reduce(scale.sum: lane);
        bind(r -> warp.x, nl -> lane.x);
        vectorize(nv);
    }
    /// A row a CTA, kept in registers. Rows of up to 8192 elements.
    pub rms_cta for rms_norm<f32 | f16 | bf16> {
        fits(N <= 8192);
        tile(r = 1);
        split(n -> no, nt, nv: 256, 4);
        reduce(scale.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Sixteen bytes of 16-bit elements a thread.
    pub rms_cta_8 for rms_norm<f16 | bf16> = rms_cta { split(n -> no, nt, nv: 256, 8); }
    /// A row a CTA, read twice instead of kept: any length.
    pub rms_long for rms_norm<f32 | f16 | bf16> {
        tile(r = 1);
        split(n -> no, nt, nv: 512, 4);
        recompute(v);
        fuse(v at n);
        reduce(scale.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

schedule! {
    /// A row a warp, kept in registers: read once, reduced by shuffles. Rows of up to 1024 elements.
    pub layer_warp for layer_norm<f32 | f16 | bf16> {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl, nv: 32, 4);
        fuse(z at n);
        reduce(mean.sum, scale.sum: lane);
        bind(r -> warp.x, nl -> lane.x);
        vectorize(nv);
    }
    /// A row a CTA, kept in registers. Rows of up to 8192 elements.
    pub layer_cta for layer_norm<f32 | f16 | bf16> {
        fits(N <= 8192);
        tile(r = 1);
        split(n -> no, nt, nv: 256, 4);
        fuse(z at n);
        reduce(mean.sum, scale.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Sixteen bytes of 16-bit elements a thread.
    pub layer_cta_8 for layer_norm<f16 | bf16> = layer_cta { split(n -> no, nt, nv: 256, 8); }
    /// A row a CTA, read three times instead of kept: any length.
    pub layer_long for layer_norm<f32 | f16 | bf16> {
        tile(r = 1);
        split(n -> no, nt, nv: 512, 4);
        recompute(v);
        fuse(v, z at n);
        reduce(mean.sum, scale.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![rms_warp, rms_cta, rms_cta_8, rms_long, layer_warp, layer_cta, layer_cta_8, layer_long];
