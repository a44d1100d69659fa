use tilewright::prelude::*;

#[tile_kernel]
fn all(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let n = program_tile(N);
    store(y, [n], cumsum(load(x, [n]), n));
}

fn main() {}
