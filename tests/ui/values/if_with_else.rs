use tilewright::prelude::*;

#[tile_kernel]
fn large(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    if load(x, [i]) > 0.0 {
        store(y, [i], load(x, [i]));
    } else {
        store(y, [i], 0.0);
    }
}

fn main() {}
