use tilewright::prelude::*;

#[tile_kernel]
fn reached(a: &Tensor<bool, M, K>, b: &Tensor<bool, K, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(y, [i, j], acc);
}

fn main() {}
