use tilewright::prelude::*;

#[tile_kernel]
pub fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    shared for matmul<f32> {
        tile(i = 32, j = 32, k = 64);
        bind(j -> thread.x, i -> thread.y);
        stage(a, b at k: shared);
    }
    // ANCHOR: schedule
    column = shared {
        split(i -> it, ir: 8);
        reorder(k, ir);
    }
    // ANCHOR_END: schedule
}

fn main() {}
