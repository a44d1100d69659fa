use tilewright::prelude::*;

#[tile_kernel]
fn put(x: &Tensor<f32, M, N>, at: &Tensor<i32, M>, y: &mut Tensor<f32, L>) {
    let (i, j) = program_tile(M, N);
    store(y, [unique(load(at, [i]))], load(x, [i, j]));
}

fn main() {}
