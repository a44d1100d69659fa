use tilewright::prelude::*;

#[tile_kernel]
fn noise(seed: i32, y: &mut Tensor<u32, N>) {
    let i = program_tile(N);
    store(y, [i], random(seed, i));
}

fn main() {}
