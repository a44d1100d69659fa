use tilewright::prelude::*;

#[tile_kernel]
fn both(
    a: &Tensor<bf16, M, K>,
    b: &Tensor<bf16, K, N>,
    d: &Tensor<bf16, K, N>,
    e: &Tensor<bf16, M, K>,
    c: &mut Tensor<f32, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut first = zeros::<f32>([i, j]);
    for k in tiles(K) {
        first = dot(load(a, [i, k]), load(b, [k, j]), first);
    }
    let mut second = zeros::<f32>([i, j]);
    for l in tiles(K) {
        second = dot(load(e, [i, l]), load(d, [l, j]), second);
    }
    store(c, [i, j], first * second);
}

schedule! {
    fast on sm_90a for both {
        tile(i = 64, j = 64, k = 64, l = 64);
        tensor_core(first: wgmma(64, 64));
        tensor_core(second: wgmma(64, 64));
        stage(a, b at k: shared, tma);
        stage(e, d at l: shared, tma);
        swizzle(a: 128, b: 128, d: 128, e: 128);
        pipeline(k, 3);
        pipeline(l, 3);
        produce(k: warp);
        produce(l: warpgroup);
    }
}

fn main() {}
