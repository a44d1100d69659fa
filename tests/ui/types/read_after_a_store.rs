use tilewright::prelude::*;

#[tile_kernel]
fn twice(x: &mut Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [i]) * 2.0);
    store(y, [i], load(x, [i]));
}

fn main() {}
