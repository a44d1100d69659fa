use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let v = load(x, [i, j]);
    store(x, [i, j], v * 2.0);
}

fn main() {}
