use tilewright::prelude::*;

#[tile_kernel]
fn best(a: &Tensor<f32, S, K>, w: &Tensor<f32, N, K>, y: &mut Tensor<i32, S>) {
    let s = program_tile(S);
    let (n, k) = whole(N, K);
    store(y, [s], argmax(sum(load(a, [s, k]) * load(w, [n, k]), k), n));
}

fn main() {}
