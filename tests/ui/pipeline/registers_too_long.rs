use tilewright::prelude::*;

#[tile_kernel]
fn matmul(a: &Tensor<f32, M, K>, b: &Tensor<f32, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc);
}

schedule! {
    ahead for matmul {
        tile(i = 16, j = 16, k = 16384);
        bind(i -> thread.y, j -> thread.x);
        fragment(a, b at k.t);
        pipeline(k.t, 2);
    }
}

fn main() {}
