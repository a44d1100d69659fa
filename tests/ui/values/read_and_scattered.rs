use tilewright::prelude::*;

#[tile_kernel]
fn moved(at: &Tensor<i32, N>, x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [unique(load(at, [i]))], load(x, [i]));
}

fn main() {}
