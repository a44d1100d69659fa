use tilewright::prelude::*;

#[tile_kernel]
fn large(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    if let Some(v) = load(x, [i]) {
        store(y, [i], v);
    }
}

fn main() {}
