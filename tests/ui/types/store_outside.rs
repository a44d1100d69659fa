use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i + 1], load(x, [i]));
}

fn main() {}
