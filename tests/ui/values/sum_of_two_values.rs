use tilewright::prelude::*;

#[tile_kernel]
fn put(x: &Tensor<f32, N>, p: &Tensor<i32, N>, q: &Tensor<i32, N>, y: &mut Tensor<f32, L>) {
    let i = program_tile(N);
    store(y, [load(p, [i]) + load(q, [i])], load(x, [i]));
}

fn main() {}
