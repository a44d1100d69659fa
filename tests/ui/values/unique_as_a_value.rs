use tilewright::prelude::*;

#[tile_kernel]
fn copy(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], unique(load(x, [i])));
}

fn main() {}
