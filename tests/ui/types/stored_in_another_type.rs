use tilewright::prelude::*;

#[tile_kernel]
fn widen(x: &Tensor<f16, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) + load(x, [i]));
}

fn main() {}
