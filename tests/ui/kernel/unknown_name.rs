use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let value = load(x, [i, j]);
    store(y, [i, j], valu * 2.0);
}

fn main() {}
