use tilewright::prelude::*;

#[tile_kernel]
fn noise(y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], uniform(i));
}

fn main() {}
