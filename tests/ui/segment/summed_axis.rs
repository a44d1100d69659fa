use tilewright::prelude::*;

#[tile_kernel]
fn product<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    fast for product<f32> {
        tile(i = 8, j = 8, k = 16);
        segment(k: 40);
    }
}

fn main() {}
