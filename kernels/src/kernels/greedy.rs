//! Where the greatest element of a row is.

use tilewright::prelude::*;

/// y = the first place of the greatest element of each row of x.
#[tile_kernel]
pub fn greedy<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<i32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], argmax(load(x, [r, n]), n));
}

schedule! {
    /// A row a CTA, read twice: for the greatest element, and for its place.
    pub long for greedy<f32 | f16 | bf16> {
        tile(r = 1);
        split(n -> no, nt, nv: 1024, 4);
        reduce(y.max, y.min: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![long];
