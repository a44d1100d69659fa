use tilewright::prelude::*;

#[tile_kernel]
fn scaled(x: &Tensor<f8, N>, y: &mut Tensor<f32, N>, by: f8) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]).cast::<f32>() * by.cast::<f32>());
}

fn main() {}
