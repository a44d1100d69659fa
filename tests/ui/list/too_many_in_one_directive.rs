//! One directive with more configurations than are proved.

use tilewright::prelude::*;

#[tile_kernel]
fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    tuned for matmul<f32> {
        tile(i = [1, 2, 4, 8, 16, 32, 64], j = [1, 2, 4, 8, 16, 32, 64], k = [1, 2, 4, 8, 16, 32, 64]);
        bind(j -> thread.x, i -> thread.y);
    }
}

fn main() {}
