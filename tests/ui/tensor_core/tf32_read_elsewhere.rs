use tilewright::prelude::*;

#[tile_kernel]
fn product(
    a: &Tensor<f32, M, K>,
    b: &Tensor<f32, K, N>,
    d: &Tensor<f32, K, N>,
    c: &mut Tensor<f32, M, N>,
    e: &mut Tensor<f32, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    let mut more = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
        more = dot(load(a, [i, k]) * load(a, [i, k]), load(d, [k, j]), more, tf32);
    }
    store(c, [i, j], acc);
    store(e, [i, j], more);
}

schedule! {
    fast on sm_90a for product {
        tile(i = 64, j = 64, k = 32);
        tensor_core(acc: wgmma(64, 64));
        tensor_core(more: mma);
        stage(a, d at k: shared);
        stage(b at k: shared, transposed);
        swizzle(a: 128, b: 128);
    }
}

fn main() {}
