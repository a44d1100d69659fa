use tilewright::prelude::*;

#[tile_kernel]
fn gram<T: Float>(a: &Tensor<T, M, K>, c: &mut Tensor<T, M, M>) {
    let (i, j) = program_tile(M, M);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(a, [j, k]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    fast on sm_90a for gram<f16 | bf16> {
        tile(i = 64, j = 64, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared, tma);
        swizzle(a: 128);
    }
}

fn main() {}
