//! 3-point average: neighbouring outputs share inputs, so the support region is worth staging.

use tilewright::prelude::*;

/// y[i] = (x[i] + x[i+1] + x[i+2]) / 3.
#[tile_kernel]
pub fn conv1d(x: &Tensor<f32, { N + 2 }>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let total = load(x, [i]) + load(x, [i + 1]) + load(x, [i + 2]);
    store(y, [i], total / 3.0);
}

schedule! {
    /// Every thread reads its three inputs from global memory.
    pub direct for conv1d {
        tile(i = 256);
        bind(i -> thread.x);
    }
    /// The CTA copies the 258 inputs it needs to shared memory first: each is read once.
    pub staged = direct {
        stage(x at i: shared);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![direct, staged];
