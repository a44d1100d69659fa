use tilewright::prelude::*;

#[tile_kernel]
fn masked(x: &Tensor<f32, N>, keep: &Tensor<bool, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) * load(keep, [i]));
}

fn main() {}
