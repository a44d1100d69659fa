use tilewright::prelude::*;

#[tile_kernel]
fn count(x: &Tensor<f32, N>, y: &mut Tensor<i32, 1>) {
    let n = whole(N);
    store(y, [0], sum(load(x, [n]) > 0.0, n));
}

fn main() {}
