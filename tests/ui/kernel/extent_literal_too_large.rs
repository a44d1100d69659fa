use tilewright::prelude::*;

#[tile_kernel]
fn far(x: &Tensor<f32, { 4294967296 * N }>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]));
}

fn main() {}
