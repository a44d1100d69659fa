use tilewright::prelude::*;

#[tile_kernel]
fn first(x: &Tensor<f32, A, B, C, D, E, F, G>, y: &mut Tensor<f32, A>) {
    let i = program_tile(A);
    store(y, [i], load(x, [i, 0, 0, 0, 0, 0, 0]));
}

fn main() {}
