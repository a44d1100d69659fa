//! A linear layer: bias and ReLU ride in the epilogue of the product.

// Schedules of matmul, which some here extend.
use super::product;
use tilewright::prelude::*;

/// y = relu(x·w + bias), accumulated in f32.
#[tile_kernel]
pub fn linear<T: Float>(
    a: &Tensor<T, M, K>,
    b: &Tensor<T, K, N>,
    bias: &Tensor<T, N>,
    c: &mut Tensor<T, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], max(acc + load(bias, [j]).cast::<f32>(), 0.0).cast::<T>());
}

schedule! {
    /// The directives of matmul's warp-tiled schedule, on a kernel with another epilogue.
    pub warptile for linear<f32 | f16 | bf16> = product::warptile {}
    /// Those of its fastest one.
    pub best for linear<f32> = product::best {}
    /// Those of its first one on tensor cores: bias and ReLU are applied where the sums lie in registers.
    pub mma for linear<f16 | bf16> = product::mma {}
    /// Of its fastest one there that older GPUs run.
    pub mma_large_tile for linear<f16 | bf16> = product::mma_large_tile {}
    /// And those of its fastest one there.
    pub mma_best for linear<f16 | bf16> = product::mma_best {}
    /// And those of its fastest one on Hopper. What a thread adds to its columns is not held for all of them.
    pub wgmma_best for linear<f16 | bf16> = product::wgmma_best { reorder(j.group, i.atom, i.half in c); }
    /// The same in a row of layers: each begins while the one before it ends.
    pub dependent = wgmma_best { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![warptile, best, mma, mma_large_tile, mma_best, wgmma_best, dependent];
