use tilewright::prelude::*;

#[tile_kernel]
fn mean(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    store(y, [i], sum(load(x, [i, n]), n) / N);
}

fn main() {}
