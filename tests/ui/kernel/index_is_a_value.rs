use tilewright::prelude::*;

#[tile_kernel]
fn gather(x: &Tensor<f32, K, N>, at: &Tensor<f32, M>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let p = load(at, [i]) + 1.0;
    store(y, [i, j], load(x, [p + i, j]));
}

fn main() {}
