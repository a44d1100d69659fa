use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let n = whole(N);
    store(y, [i, n], load(x, [i, n]));
}

fn main() {}
