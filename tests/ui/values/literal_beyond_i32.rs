use tilewright::prelude::*;

#[tile_kernel]
fn filled(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) + full::<i32>(3000000000, [i]));
}

fn main() {}
