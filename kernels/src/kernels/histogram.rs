//! How often each number occurs: points that meet.

use tilewright::prelude::*;

/// Adds to `h[b]` how often b occurs in x. Numbers that are no place in h are left out.
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
    /// Each CTA counts in shared memory, and adds its counts to those of all: for few bins.
    pub shared for histogram {
        fits(B <= 1024);
        tile(i = 65536);
        split(i -> it, iv: 4);
        split(it -> io, ii: 512);
        bind(ii -> thread.x);
        vectorize(iv);
        stage(h: shared);
    }
    /// For more bins, of which fewer meet.
    pub shared_many = shared {
        fits(B <= 8192);
        tile(i = 262144);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![scalar, vectorized, shared, shared_many];
