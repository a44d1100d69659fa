use tilewright::prelude::*;

#[tile_kernel]
fn all(x: &Tensor<f32, N>, y: &mut Tensor<i32, N>) {
    let n = whole(N);
    store(y, [n], cumsum(load(x, [n]) > 0.0, n));
}

fn main() {}
