use tilewright::prelude::*;

#[tile_kernel]
fn mask(x: &Tensor<f32, N>, keep: &Tensor<bool, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], select(load(keep, [i]), load(x, [i]), 0.0));
}

fn main() {}
