use tilewright::prelude::*;

#[tile_kernel]
fn both(x: &Tensor<i32, N>, y: &mut Tensor<i32, B>) {
    let i = program_tile(N);
    atomic_add(y, [load(x, [i])], 1);
    atomic_max(y, [load(x, [i])], 2);
}

fn main() {}
