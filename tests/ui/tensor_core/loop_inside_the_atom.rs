use tilewright::prelude::*;

#[tile_kernel]
fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    fast for matmul<f16> {
        tile(i = 16, j = 64, k = 32);
        tensor_core(acc: mma);
        reorder(k.atom, i);
        stage(a, b at k: shared);
    }
}

fn main() {}
