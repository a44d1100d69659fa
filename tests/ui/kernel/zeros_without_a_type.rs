use tilewright::prelude::*;

#[tile_kernel]
fn clear(y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], zeros([i]));
}

fn main() {}
