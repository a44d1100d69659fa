use tilewright::prelude::*;

#[tile_kernel]
fn masked(x: &Tensor<f32, N>, keep: &Tensor<bool, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], select(load(keep, [i]) == 1, load(x, [i]), 0.0));
}

fn main() {}
