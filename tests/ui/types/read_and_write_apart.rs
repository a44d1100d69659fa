use tilewright::prelude::*;

#[tile_kernel]
fn kernel(y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(y, [i + 1]) + load(y, [i]));
}

fn main() {}
