use tilewright::prelude::*;

#[tile_kernel]
fn histogram(x: &Tensor<i32, N>, h: &mut Tensor<i32, B>) {
    let i = program_tile(N);
    atomic_add(h, [load(x, [i])]);
}

fn main() {}
