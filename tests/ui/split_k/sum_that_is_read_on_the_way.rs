use tilewright::prelude::*;

#[tile_kernel]
fn k(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, s: &Tensor<f32, N>, c: &mut Tensor<f32, M, N>, most: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = load(s, [j]) + full::<f32>(1.0, [i, j]);
    let mut top = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
        top = max(top, acc);
    }
    store(c, [i, j], acc);
    store(most, [i, j], top);
}

schedule! {
    fast for k {
        tile(i = 16, j = 16, k = 8);
        split_k(k, 2);
    }
}

fn main() {}
