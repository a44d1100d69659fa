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
        split(i -> iw, im: 32);
        split(j -> jw, jm: 32);
        tensor_core(acc: mma);
        tensor_core(low: mma);
        stage(a, b at k: shared, cp_async, vector(16));
        stage(d, e at l: shared, cp_async, vector(16));
        bind(iw -> warp.y, jw -> warp.x);
        reorder(iw, jw, k.atom, im, jm in low);
    }
}

fn main() {}
