use tilewright::prelude::*;

#[tile_kernel]
fn far(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i + 99999999999999999999]));
}

fn main() {}
