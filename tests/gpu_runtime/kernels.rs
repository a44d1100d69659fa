//! Kernels, schedules and data of these tests.

use super::product;
use tilewright::{Error, prelude::*};

/// C = A·B.
#[tile_kernel]
pub fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

/// x + 1, in place.
#[tile_kernel]
pub fn increment(x: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(x, [i, j], load(x, [i, j]) + 1.0);
}

schedule! {
    pub wide for matmul<f32 | f16> {
        tile(i = 32, j = 64, k = 16);
        split(j -> jt, jv: 4);
        split(i -> it, ir: 4);
        bind(jt -> thread.x, it -> thread.y);
        stage(a, b at k: shared, cp_async, vector(16));
        pipeline(k, 2);
        reorder(k, ir, jv);
        vectorize(jv);
    }
    pub parts = wide<f32> { split_k(k, 4); }
    pub added = wide<f32> { split_k(k, 4; atomic); }
}

schedule! {
    pub by_rows for increment {
        tile(i = 1, j = 512);
        split(j -> jt, jv: 4);
        bind(jt -> thread.x);
        vectorize(jv);
    }
    pub early on sm_90 = by_rows { launch(dependent); }
    pub layers_early = product::tma_store { launch(dependent); }
}

/// The GPU, or nothing where there is none.
pub fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(Error::NoDriver | Error::NoDevice { .. }) => {
            eprintln!("skipped: no GPU");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

pub fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7) % 11) as f32 - 5.0).collect()
}
