use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<bf16, M, K>, b: &Tensor<bf16, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc);
}

schedule! {
    fast on sm_90a for product {
        tile(i = 128, j = 128, k = 64);
        tensor_core(acc: wgmma(64, 128));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
        pipeline(k, 3);
        persistent(1, counter);
    }
}

fn main() {}
