use tilewright::prelude::*;

#[tile_kernel]
fn scores(q: &Tensor<f32, M, D>, k: &Tensor<f32, N, D>, s: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let d = whole(D);
    store(s, [i, j], dot(load(q, [i, d]), load(k, [j, d]), 1.0f32));
}

fn main() {}
