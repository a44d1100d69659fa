//! Row-wise softmax: reductions that stay on chip, and rows of any length.

use tilewright::prelude::*;

/// y = softmax of each row of x.
#[tile_kernel]
pub fn softmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let e = exp(v - max(v, n));
    store(y, [r, n], e / sum(e, n));
}

schedule! {
    /// A row a warp, kept in registers: read once, reduced by shuffles. Rows of up to 1024 elements.
    pub short for softmax {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl, nv: 32, 4);
        reduce(e.max, y.sum: lane);
        bind(r -> warp.x, nl -> lane.x);
        vectorize(nv);
    }
    /// A row a CTA, read three times instead of kept: any length.
    pub long for softmax {
        tile(r = 1);
        split(n -> no, nt, nv: 256, 4);
        recompute(v, e);
        fuse(v, e at n);
        reduce(e.max, y.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![short, long];
