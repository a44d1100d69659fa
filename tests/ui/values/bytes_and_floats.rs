use tilewright::prelude::*;

#[tile_kernel]
fn scaled(q: &Tensor<i8, N>, scale: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(scale, [i]) * load(q, [i]));
}

fn main() {}
