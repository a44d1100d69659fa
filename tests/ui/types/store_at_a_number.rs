use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<i32, N>, y: &mut Tensor<i32, B>) {
    let i = program_tile(N);
    atomic_add(y, [3], load(x, [i]));
}

fn main() {}
