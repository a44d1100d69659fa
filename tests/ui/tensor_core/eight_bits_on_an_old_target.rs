use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<f8, M, K>, b: &Tensor<f8, K, N>, c: &mut Tensor<bf16, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<bf16>());
}

schedule! {
    fast for product {
        tile(i = 16, j = 16, k = 32);
        stage(a, b at k: shared);
        bind(i -> thread.y, j -> thread.x);
    }
}

fn main() {}
