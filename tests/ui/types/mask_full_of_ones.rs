use tilewright::prelude::*;

#[tile_kernel]
fn set(y: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    store(y, [i], full::<bool>(1.0, [i]));
}

fn main() {}
