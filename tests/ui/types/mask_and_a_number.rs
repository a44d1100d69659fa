use tilewright::prelude::*;

#[tile_kernel]
fn both(keep: &Tensor<bool, N>, bits: &Tensor<i32, N>, y: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    store(y, [i], load(keep, [i]) & load(bits, [i]));
}

fn main() {}
