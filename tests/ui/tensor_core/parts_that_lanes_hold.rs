use tilewright::prelude::*;

#[tile_kernel]
fn k(a: &Tensor<f16, M, K>, b: &Tensor<f16, K, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let j = whole(N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(y, [i], max(acc, j));
}

schedule! {
    fast for k {
        fits(N <= 64);
        tile(i = 16, j = 64, k = 32);
        tensor_core(acc: mma);
        stage(a, b at k: shared);
        reduce(y.max: warp);
    }
}

fn main() {}
