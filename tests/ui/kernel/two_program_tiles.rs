use tilewright::prelude::*;

#[tile_kernel]
fn copy(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let i = program_tile(M);
    let j = program_tile(N);
    store(y, [i, j], load(x, [i, j]));
}

fn main() {}
