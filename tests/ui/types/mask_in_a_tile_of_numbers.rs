use tilewright::prelude::*;

#[tile_kernel]
fn set(y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], full::<f32>(true, [i]));
}

fn main() {}
