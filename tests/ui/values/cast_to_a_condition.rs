use tilewright::prelude::*;

#[tile_kernel]
fn kept(x: &Tensor<f32, N>, keep: &Tensor<i32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], select(load(keep, [i]).cast::<bool>(), load(x, [i]), 0.0));
}

fn main() {}
