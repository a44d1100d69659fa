use tilewright::prelude::*;

#[tile_kernel]
fn linear(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, bias: &Tensor<f32, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], max(acc + load(bias, [j]), 0.0));
}

schedule! {
    fast for linear { tile(i = 16, j = 16, k = 16); bind(j -> thread.x, i -> thread.y); split_k(k, 4; atomic); }
}

fn main() {}
