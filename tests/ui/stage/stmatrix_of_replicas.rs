use tilewright::prelude::*;

#[tile_kernel]
fn products<T: Float>(
    a: &Tensor<T, M, K>,
    b: &Tensor<T, K, 64>,
    d: &Tensor<T, K, 64>,
    c: &mut Tensor<T, M, 64>,
    e: &mut Tensor<T, M, 64>,
) {
    let i = program_tile(M);
    let j = whole(64);
    let l = whole(64);
    let mut first = zeros::<f32>([i, j]);
    let mut second = zeros::<f32>([i, l]);
    for k in tiles(K) {
        first = dot(load(a, [i, k]), load(b, [k, j]), first);
        second = dot(load(a, [i, k]), load(d, [k, l]), second);
    }
    store(c, [i, j], first.cast::<T>());
    store(e, [i, l], second.cast::<T>());
}

schedule! {
    fast on sm_90a for products<bf16> {
        tile(i = 64, k = 64);
        tensor_core(first: wgmma(64, 64));
        tensor_core(second: wgmma(64, 32));
        stage(a, b, d at k: shared, tma);
        swizzle(a: 128, b: 128, d: 64);
        bind(l.atom -> warpgroup.x);
        vectorize(j.pair);
        stage(c: shared, tma, stmatrix);
    }
}

fn main() {}
