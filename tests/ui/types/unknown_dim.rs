use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let k = whole(K);
    store(y, [i], sum(load(x, [i, k]), k));
}

fn main() {}
