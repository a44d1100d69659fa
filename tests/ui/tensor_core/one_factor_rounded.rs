use tilewright::prelude::*;

#[tile_kernel]
fn matmul(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(tf32(load(a, [i, k])), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc);
}

schedule! {
    fast for matmul {
        tile(i = 64, j = 64, k = 32);
        tensor_core(acc: mma);
        stage(a, b at k: shared);
    }
}

fn main() {}
