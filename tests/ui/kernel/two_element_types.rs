use tilewright::prelude::*;

#[tile_kernel]
fn converted<T: Float, U: Float>(x: &Tensor<T, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]).cast::<f32>());
}

fn main() {}
