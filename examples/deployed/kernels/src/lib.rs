//! The kernels of the application `deployed`: a crate of their own, because its build script compiles them.

use tilewright::prelude::*;

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

/// The sum of each row.
#[tile_kernel]
pub fn sums(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    store(y, [i], sum(load(x, [i, n]), n));
}

schedule! {
    /// Tiles in shared memory.
    pub tiled for matmul<f32 | f16> {
        tile(i = 16, j = 16, k = 16);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
    /// Not among those that the build script compiles.
    pub larger = tiled { tile(i = 32, j = 32); }
}

schedule! {
    /// A row a thread.
    pub rows for sums { tile(i = 32); bind(i -> thread.x); }
}
