//! How often each number occurs: points that meet.

use tilewright::prelude::*;

/// Adds to h[b] how often b occurs in x. Numbers that are no place in h are left out.
#[tile_kernel]
pub fn histogram(x: &Tensor<i32, N>, h: &mut Tensor<i32, B>) {
    let i = program_tile(N);
    atomic_add(h, [load(x, [i])], 1);
}

schedule! {
    /// One number a thread.
    pub scalar for histogram {
        tile(i = 256);
        bind(i -> thread.x);
    }
    /// Four numbers a thread, loaded by one instruction.
    pub vectorized = scalar {
        tile(i = 1024);
        split(i -> it, iv: 4);
        drop(bind(i));
        bind(it -> thread.x);
        vectorize(iv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![scalar, vectorized];
