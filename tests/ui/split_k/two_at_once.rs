use tilewright::prelude::*;

#[tile_kernel]
fn both(
    a: &Tensor<f32, M, K>,
    b: &Tensor<f32, K, N>,
    d: &Tensor<f32, K, N>,
    e: &Tensor<f32, M, K>,
    c: &mut Tensor<f32, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let mut first = zeros::<f32>([i, j]);
    for k in tiles(K) {
        first = dot(load(a, [i, k]), load(b, [k, j]), first);
    }
    let mut second = zeros::<f32>([i, j]);
    for l in tiles(K) {
        second = dot(load(e, [i, l]), load(d, [l, j]), second);
    }
    store(c, [i, j], first * second);
}

schedule! {
    fast for both {
        tile(i = 16, j = 16, k = 16, l = 16);
        bind(i -> thread.y, j -> thread.x);
        split_k(k, 2);
        split_k(l, 2);
    }
}

fn main() {}
