//! The product of a lower triangular matrix and another one.

// Schedules of matmul, one of which is extended here.
use super::product;
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
    /// The directives of matmul's first schedule on tensor cores.
    pub mma for triangular<f16 | bf16> = product::mma {}
    /// A producer copies, and takes the tiles: lower rows take longer, so they come first, and whoever is done takes the next one.
    pub mma_counted on sm_90a for triangular<f16 | bf16> = product::mma_best {
        drop(fragment(a, b), pipeline(k.atom));
        persistent(1, counter);
        order(reversed);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![naive, shared, mma, mma_counted];
