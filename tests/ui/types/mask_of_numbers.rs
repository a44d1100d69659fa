use tilewright::prelude::*;

#[tile_kernel]
fn flags(x: &Tensor<f32, N>, y: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]));
}

fn main() {}
