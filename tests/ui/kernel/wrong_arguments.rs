use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let v = load(x);
    store(y, [i, j], select(v > 0.0, v));
}

fn main() {}
