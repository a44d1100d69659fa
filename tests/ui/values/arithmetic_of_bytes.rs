use tilewright::prelude::*;

#[tile_kernel]
fn both(x: &Tensor<u8, N>, z: &Tensor<u8, N>, y: &mut Tensor<u8, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) + load(z, [i]));
}

fn main() {}
