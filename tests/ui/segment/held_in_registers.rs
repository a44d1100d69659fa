use tilewright::prelude::*;

#[tile_kernel]
fn product<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    fast on sm_80 for product<bf16> {
        tile(i = 32, j = 32, k = 32);
        tensor_core(acc: mma);
        stage(a, b at k: shared);
        fragment(a, b at k.atom);
        pipeline(k.atom, 2);
        segment(j: 80);
    }
}

fn main() {}
