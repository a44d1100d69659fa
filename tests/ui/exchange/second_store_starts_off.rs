use tilewright::prelude::*;

#[tile_kernel]
fn product<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, 64>, c: &mut Tensor<T, M, 132>) {
    let (i, j) = program_tile(M, 64);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
    store(c, [i, j + 68], max(acc, 0.0).cast::<T>());
}

schedule! {
    fast on sm_90a for product<bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a, b at k: shared, tma);
        swizzle(a: 128, b: 128);
        vectorize(j.pair);
        exchange(c);
    }
}

fn main() {}
