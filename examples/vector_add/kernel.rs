//! The smallest kernel: one axis, no reduction.

use tilewright::prelude::*;

/// z = x + y.
#[tile_kernel]
pub fn vector_add<T: Float>(x: &Tensor<T, N>, y: &Tensor<T, N>, z: &mut Tensor<T, N>) {
    let i = program_tile(N);
    store(z, [i], load(x, [i]) + load(y, [i]));
}

schedule! {
    /// One element a thread.
    pub scalar for vector_add<f32 | f16 | bf16> {
        tile(i = 256);
        bind(i -> thread.x);
    }
    /// Four elements a thread, moved by one instruction where pointers and length allow.
    pub vectorized = scalar {
        tile(i = 1024);
        split(i -> it, iv: 4);
        drop(bind(i));
        bind(it -> thread.x);
        vectorize(iv);
    }
    /// Each element is used once: L2 gives these lines up first, and keeps what other kernels share.
    pub streaming = vectorized { cache(x: evict_first, y: evict_first, z: evict_first); }
    /// Begins while the kernel before it ends.
    pub dependent on sm_90 = vectorized { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![scalar, vectorized, streaming, dependent];
