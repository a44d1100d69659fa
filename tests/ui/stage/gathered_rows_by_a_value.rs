use tilewright::prelude::*;

#[tile_kernel]
fn product(x: &Tensor<f32, M, S>, at: &Tensor<i32, 1>, w: &Tensor<f32, K, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i, load(at, [0]) + k]), load(w, [k, j]), acc);
    }
    store(y, [i, j], acc);
}

schedule! {
    scheduled on sm_90a for product {
        tile(i = 8, j = 32, k = 8);
        bind(i -> thread.y, j -> thread.x);
        stage(x at k: shared, tma);
    }
}

fn main() {}
