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
    fast for matmul {
        tile(i = 128, j = 64, k = 256);
        split(i -> it, ir: 16);
        split(j -> jt, jr: 8);
        bind(it -> thread.y, jt -> thread.x);
        unroll(k);
    }
}

fn main() {}
