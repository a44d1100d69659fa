use tilewright::prelude::*;

#[tile_kernel]
fn walk(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    atomic_add(y, [load(x, [i])], load(y, [i]));
}

fn main() {}
