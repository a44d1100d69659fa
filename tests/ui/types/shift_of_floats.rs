use tilewright::prelude::*;

#[tile_kernel]
fn halves(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) >> i);
}

fn main() {}
