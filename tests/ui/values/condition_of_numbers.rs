use tilewright::prelude::*;

#[tile_kernel]
fn large(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    if load(x, [i]) {
        store(y, [i], load(x, [i]));
    }
}

fn main() {}
