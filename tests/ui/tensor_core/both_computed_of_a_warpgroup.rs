use tilewright::prelude::*;

#[tile_kernel]
fn scaled(a: &Tensor<bf16, M, K>, g: &Tensor<bf16, K>, b: &Tensor<bf16, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]) * load(g, [k]), load(b, [k, j]) * load(g, [k]), acc);
    }
    store(c, [i, j], acc);
}

schedule! {
    fast on sm_90a for scaled {
        tile(i = 128, j = 128, k = 64);
        tensor_core(acc: wgmma(64, 128));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
    }
}

fn main() {}
