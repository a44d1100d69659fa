use tilewright::prelude::*;

#[tile_kernel]
fn both(x: &Tensor<f32, N>, at: &Tensor<i32, N>, y: &mut Tensor<f32, L>) {
    let i = program_tile(N);
    store(y, [unique(load(at, [i]))], load(x, [i]));
    store(y, [unique(load(at, [i]) + 1)], load(x, [i]));
}

fn main() {}
