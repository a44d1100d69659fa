use tilewright::prelude::*;

#[tile_kernel]
fn nibbles(x: &Tensor<u8, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) >> (4 * (i % 2)));
}

fn main() {}
