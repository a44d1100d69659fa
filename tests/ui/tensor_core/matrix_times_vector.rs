use tilewright::prelude::*;

#[tile_kernel]
fn k(a: &Tensor<f16, M, K>, x: &Tensor<f16, K>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut acc = zeros::<f32>([i]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(x, [k]), acc);
    }
    store(y, [i], acc);
}

schedule! {
    fast for k {
        tile(i = 64, k = 32);
        tensor_core(acc: mma);
        stage(a, x at k: shared);
    }
}

fn main() {}
