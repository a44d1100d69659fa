use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, N>) -> f32 {
    let n = whole(N);
    sum(load(x, [n]), n)
}

fn main() {}
