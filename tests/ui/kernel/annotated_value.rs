use tilewright::prelude::*;

#[tile_kernel]
fn twice(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let v: f32 = load(x, [i]);
    store(y, [i], v + v);
}

fn main() {}
