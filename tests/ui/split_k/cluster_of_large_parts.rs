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
    fast on sm_90 for matmul<f32> {
        tile(i = 256, j = 320, k = 8);
        split(i -> iw, ir: 16);
        split(j -> jw, jr: 10);
        bind(iw -> thread.y, jw -> thread.x);
        split_k(k, 4; cluster);
    }
}

fn main() {}
