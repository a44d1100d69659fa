use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<f32, N>, at: &Tensor<i32, N>, y: &mut Tensor<i32, B>) {
    let i = program_tile(N);
    atomic_add(y, [load(at, [i])], load(x, [i]));
}

fn main() {}
