//! Something else than a number in a list.

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
    tuned for matmul<f32> { tile(i = [8, N], j = 32); bind(j -> thread.x, i -> thread.y); }
}

fn main() {}
