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
    fast for matmul<f32> { tile(i = 16, j = 16, k = 16); bind(i -> thread.y, j -> thread.x); order(serpentine(8) over i); }
}

fn main() {}
