use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut v = load(x, [i, j]);
    while v > 1.0 {
        v = v / 2.0;
    }
    store(y, [i, j], v);
}

fn main() {}
