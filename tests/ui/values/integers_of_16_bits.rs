use tilewright::prelude::*;

#[tile_kernel]
fn widened(x: &Tensor<i16, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]).cast::<f32>());
}

fn main() {}
