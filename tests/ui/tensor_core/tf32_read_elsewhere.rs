use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    let mut rows = zeros::<f32>([i]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
        rows = rows + sum(load(a, [i, k]), k);
    }
    store(c, [i, j], acc + rows);
}

schedule! {
    fast on sm_90a for product {
        tile(i = 64, j = 64, k = 32);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared);
        stage(b at k: shared, transposed);
        swizzle(a: 128, b: 128);
    }
}

fn main() {}
