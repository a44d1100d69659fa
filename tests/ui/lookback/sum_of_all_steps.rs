use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc);
}

schedule! {
    long for product {
        tile(i = 16, j = 16, k = 8);
        bind(i.t -> thread.y, j.t -> thread.x);
        lookback(k, any_order);
    }
}

fn main() {}
