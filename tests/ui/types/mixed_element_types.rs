use tilewright::prelude::*;

#[tile_kernel]
fn kernel<T: Float>(x: &Tensor<T, N>, scale: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) * load(scale, [i]));
}

fn main() {}
