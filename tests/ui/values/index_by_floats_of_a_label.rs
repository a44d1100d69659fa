use tilewright::prelude::*;

#[tile_kernel]
fn picked(x: &Tensor<f32, S, V>, at: &Tensor<f32, S>, y: &mut Tensor<f32, S>) {
    let s = program_tile(S);
    store(y, [s], load(x, [s, load(at, [s]) + 1.0]));
}

fn main() {}
