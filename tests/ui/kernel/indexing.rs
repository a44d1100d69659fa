use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], x[[i, j]] + 1.0);
}

fn main() {}
