use tilewright::prelude::*;

#[tile_kernel]
fn shifted(x: &Tensor<f32, N>, first: i32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i + fist]));
}

fn main() {}
