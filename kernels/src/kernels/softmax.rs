//! Row-wise softmax.

use tilewright::prelude::*;

/// y = softmax of each row of x.
#[tile_kernel]
pub fn softmax<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]).cast::<f32>();
    let e = exp(v - max(v, n));
    let inverse = 1.0 / sum(e, n);
    store(y, [r, n], (e * inverse).cast::<T>());
}

schedule! {
    /// A row a warp, kept in registers: read once, reduced by shuffles. Rows of up to 1024 elements.
    pub warp for softmax<f32 | f16 | bf16> {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl, nv: 32, 4);
        reduce(e.max, inverse.sum: lane);
        bind(r -> warp.x, nl -> lane.x);
        vectorize(nv);
    }
    /// A row a CTA, kept in registers. Rows of up to 8192 elements.
    pub cta for softmax<f32 | f16 | bf16> {
        fits(N <= 8192);
        tile(r = 1);
        split(n -> no, nt, nv: 256, 4);
        reduce(e.max, inverse.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// A row a CTA, read three times instead of kept: any length.
    pub long for softmax<f32 | f16 | bf16> {
        tile(r = 1);
        split(n -> no, nt, nv: 512, 4);
        recompute(v, e);
        fuse(v, e at n);
        reduce(e.max, inverse.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![warp, cta, long];
