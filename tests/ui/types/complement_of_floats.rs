use tilewright::prelude::*;

#[tile_kernel]
fn flipped(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], !load(x, [i]));
}

fn main() {}
