use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
    }
    store(c, [i, j], acc);
}

schedule! {
    fast on sm_90a for product {
        layout(b: col);
        tile(i = 64, j = 64, k = 32);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared, vector(16));
        stage(b at k: shared, transposed, cp_async, vector(16));
        swizzle(a: 128, b: 128);
    }
}

fn main() {}
