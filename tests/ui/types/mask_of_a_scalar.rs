use tilewright::prelude::*;

#[tile_kernel]
fn fill(on: bool, y: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    store(y, [i], on);
}

fn main() {}
