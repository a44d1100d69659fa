use tilewright::prelude::*;

#[tile_kernel]
fn greatest(x: &Tensor<f32, N>, at: &Tensor<i32, N>, y: &mut Tensor<f32, B>) {
    let i = program_tile(N);
    atomic_max(y, [load(at, [i])], load(x, [i]));
}

fn main() {}
