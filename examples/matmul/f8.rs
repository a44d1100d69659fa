//! Products of 8-bit numbers, and the ladder of schedules that they climb.

// Schedules of matmul, which those here extend.
use super::product;
use tilewright::prelude::*;

/// C = (A·B)·scale, accumulated in f32. A and B hold numbers of eight bits, scaled so that they fit; `scale` takes that back.
#[tile_kernel]
pub fn matmul_f8<T: Float>(a: &Tensor<f8, M, K>, b: &Tensor<f8, K, N>, c: &mut Tensor<T, M, N>, scale: f32) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc * scale).cast::<T>());
}

schedule! {
    /// CUDA cores: tiles pass through shared memory as they are, and factors are widened where they are multiplied.
    pub f8_shared on sm_89 for matmul_f8<f32 | f16 | bf16> = product::shared {
        layout(b: col);
        stage(b at k: shared, transposed);
        pad(b: 4);
    }
}

// On tensor cores rows of both factors run along what is summed: B lies in columns. A row of 128 bytes has twice as many points.
schedule! {
    /// A warpgroup multiplies 64×32 by 32×64 at once.
    pub f8_wgmma for matmul_f8<f32 | f16 | bf16> = product::tma_wgmma {
        layout(b: col);
        tile(k = 128);
        stage(b at k: shared, transposed, tma);
    }
    /// Two warpgroups multiply what a third copies, and a CTA for each multiprocessor takes tile after tile.
    pub f8_persistent for matmul_f8<f32 | f16 | bf16> = product::persistent {
        layout(b: col);
        tile(k = 128);
        stage(b at k: shared, transposed, tma);
    }
    /// In clusters, with products in flight; the hardware stores C, from matrices that warps put into shared memory.
    pub f8_stmatrix for matmul_f8<f16 | bf16> = product::stmatrix {
        layout(b: col);
        tile(k = 128);
        stage(b at k: shared, transposed, tma);
    }
    /// The directives of matmul's fastest one.
    pub f8_best for matmul_f8<f16 | bf16> = product::wgmma_best {
        layout(b: col);
        tile(k = 128);
        stage(b at k: shared, transposed, tma);
    }
}

/// The ladder, in climbing order.
pub const F8: &[&dyn AnySchedule] = schedules![f8_shared, f8_wgmma, f8_persistent, f8_stmatrix, f8_best];
