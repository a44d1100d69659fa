//! Products of the matrices of a batch, a program for each tile of each of them.

// Schedules of matmul, which some here extend.
use super::product;
use tilewright::prelude::*;

/// C = A·B for each of a batch, accumulated in f32.
#[tile_kernel]
pub fn batched<T: Float>(a: &Tensor<T, B, M, K>, b: &Tensor<T, B, K, N>, c: &mut Tensor<T, B, M, N>) {
    let (batch, i, j) = program_tile(B, M, N);
    let mut acc = zeros::<f32>([batch, i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [batch, i, k]), load(b, [batch, k, j]), acc);
    }
    store(c, [batch, i, j], acc.cast::<T>());
}

/// C = A·Bᵀ for each of a batch: rows of both factors are contiguous along what is summed.
#[tile_kernel]
pub fn batched_nt<T: Float>(a: &Tensor<T, B, M, K>, b: &Tensor<T, B, N, K>, c: &mut Tensor<T, B, M, N>) {
    let (batch, i, j) = program_tile(B, M, N);
    let mut acc = zeros::<f32>([batch, i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [batch, i, k]), load(b, [batch, j, k]), acc);
    }
    store(c, [batch, i, j], acc.cast::<T>());
}

schedule! {
    /// One element a thread, neighbouring lanes along a row.
    pub naive for batched<f32 | f16 | bf16> = product::coalesced {}
    /// The directives of matmul's warp-tiled schedule: the batch is one more dimension of the grid.
    pub warptile for batched<f32 | f16 | bf16> = product::warptile {}
    /// Those of the one that loads registers ahead. Its 16 steps are short: loads and copies for what comes next are issued
    /// over half of them, and stored in the last quarter, so that they have longer to arrive.
    pub prefetched for batched<f32 | f16 | bf16> = product::prefetched {
        interleave(k.t: loads(1/2), copies(1/2), stores(3/4));
    }
    /// Those of its first schedule on tensor cores.
    pub mma for batched<f16 | bf16> = product::mma {}
    /// Those of its fastest one there that older GPUs run.
    pub mma_large_tile for batched<f16 | bf16> = product::mma_large_tile {}
    /// And those of its fastest one there: bands are of the last two dimensions of the grid.
    pub mma_best for batched<f16 | bf16> = product::mma_best {}
    /// And those of its fastest one on Hopper but for tiles of two sizes, in narrower bands: a matrix of the batch has few tiles.
    pub wgmma_best for batched<f16 | bf16> = product::pingpong128 { order(serpentine(2)); }
}

schedule! {
    /// The same directives, with the second factor read along its rows.
    pub naive_nt for batched_nt<f32 | f16 | bf16> = naive {}
    /// It is transposed on its way to shared memory, as the first one is.
    pub warptile_nt for batched_nt<f32 | f16 | bf16> = warptile {
        stage(b at k: shared, transposed, vector(16));
        pad(b: 16);
    }
    /// `ldmatrix` reads rows of either kind.
    pub mma_nt for batched_nt<f16 | bf16> = mma {}
    /// The fastest one that older GPUs run.
    pub mma_large_tile_nt for batched_nt<f16 | bf16> = mma_large_tile {}
    /// The fastest one.
    pub mma_best_nt for batched_nt<f16 | bf16> = mma_best {}
    /// A warpgroup reads rows of either kind, too.
    pub wgmma_best_nt for batched_nt<f16 | bf16> = wgmma_best {}
}

/// All schedules, of both kernels.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![
    naive,
    warptile,
    prefetched,
    mma,
    mma_large_tile,
    mma_best,
    wgmma_best,
    naive_nt,
    warptile_nt,
    mma_nt,
    mma_large_tile_nt,
    mma_best_nt,
    wgmma_best_nt
];
