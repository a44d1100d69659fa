use tilewright::prelude::*;

#[tile_kernel]
fn halves(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N).below(N / 2);
    store(y, [i], load(x, [i]));
}

fn main() {}
