//! The product of a lower triangular matrix and another one.

use tilewright::prelude::*;

/// c = lower(a)·b: of `a`, what lies above the diagonal is not read as part of the product, whatever is there. A tile of rows needs the
/// columns up to its last row alone, so about half of the work is left out.
#[tile_kernel]
pub fn triangular<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K).below(i + 1) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    /// A thread an element, from global memory.
    pub naive for triangular<f32 | f16 | bf16> {
        tile(i = 16, j = 16);
        bind(i -> thread.y, j -> thread.x);
    }
    /// Both factors through shared memory, a thread 8 × 8 elements.
    pub shared = naive {
        tile(i = 64, j = 64, k = 16);
        drop(bind(i), bind(j));
        split(i -> it, ir: 8);
        split(j -> jt, jr: 8);
        stage(a, b at k: shared);
        reorder(it, jt, k, ir, jr in acc);
        bind(it -> thread.y, jt -> thread.x);
        unroll(ir, jr, k.t);
    }
}

schedule! {
    /// On tensor cores, three tiles on their way.
    pub mma for triangular<f16 | bf16> {
        tile(i = 128, j = 128, k = 32);
        split(i -> iw, im: 64);
        split(j -> jw, jm: 32);
        tensor_core(acc: mma);
        reorder(iw, jw, k.atom, im, jm);
        stage(a, b at k: shared, cp_async, vector(16));
        pad(a: 16, b: 16);
        pipeline(k, 3);
        bind(iw -> warp.y, jw -> warp.x);
        unroll(k.atom);
        vectorize(j.pair);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![naive, shared, mma];
