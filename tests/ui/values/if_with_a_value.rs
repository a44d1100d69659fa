use tilewright::prelude::*;

#[tile_kernel]
fn large(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    if load(x, [i]) > 0.0 {
        let v = load(x, [i]) * 2.0;
        store(y, [i], v);
    }
}

fn main() {}
