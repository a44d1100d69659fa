use tilewright::prelude::*;

#[tile_kernel]
fn k(a: &Tensor<f16, M, K>, b: &Tensor<f16, K, N>, c: &mut Tensor<f32, M, N>, scale: f32) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = acc + sum((load(a, [i, k]).cast::<f32>() * scale) * load(b, [k, j]).cast::<f32>(), k);
    }
    store(c, [i, j], acc);
}

schedule! {
    fast for k {
        tile(i = 64, j = 64, k = 32);
        tensor_core(acc: mma);
        stage(a, b at k: shared);
    }
}

fn main() {}
