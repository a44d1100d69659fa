use tilewright::prelude::*;

#[tile_kernel]
fn scaled(x: &Tensor<f32>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(y, [i]) * load(x, []));
}

fn main() {}
