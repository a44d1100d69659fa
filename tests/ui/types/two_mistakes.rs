use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let v = load(x, [i, j]);
    let w = v.exp();
    store(y, [i, j], w + unknown);
    store(x, [i, j], v);
}

fn main() {}
