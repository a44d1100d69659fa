use tilewright::prelude::*;

#[tile_kernel]
fn shift(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let s = 0.5;
    store(y, [i], load(x, [i]) + s);
}

fn main() {}
