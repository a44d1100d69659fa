use tilewright::prelude::*;

#[tile_kernel]
fn all(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let n = whole(N);
    store(y, [n], cumsum(load(x, [n]), 2));
}

fn main() {}
