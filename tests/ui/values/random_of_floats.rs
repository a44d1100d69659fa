use tilewright::prelude::*;

#[tile_kernel]
fn noise(seed: f32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], uniform(random(seed, i, 0)));
}

fn main() {}
