use tilewright::prelude::*;

#[tile_kernel]
fn lora<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, d: &Tensor<T, M, L>, e: &Tensor<T, L, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    let mut low = zeros::<f32>([i, j]);
    for l in tiles(L) {
        low = dot(load(d, [i, l]), load(e, [l, j]), low);
    }
    store(c, [i, j], (acc + low * 0.5).cast::<T>());
}

schedule! {
    fast for lora<f16> {
        tile(i = 64, j = 64, k = 32, l = 16);
        tensor_core(acc: mma);
        stage(a, b at k: shared);
        reorder(l.atom, i, j in low);
    }
}

fn main() {}
