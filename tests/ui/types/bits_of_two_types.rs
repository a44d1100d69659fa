use tilewright::prelude::*;

#[tile_kernel]
fn hashed(x: &Tensor<u32, N>, seed: i32, y: &mut Tensor<u32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) ^ seed);
}

fn main() {}
