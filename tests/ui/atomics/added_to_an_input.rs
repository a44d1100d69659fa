use tilewright::prelude::*;

#[tile_kernel]
fn histogram(x: &Tensor<i32, N>, h: &Tensor<i32, B>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]));
    atomic_add(h, [load(x, [i])], 1);
}

fn main() {}
