use tilewright::prelude::*;

#[tile_kernel]
fn rows(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    if load(x, [i, n]) > 0.0 {
        store(y, [i], sum(load(x, [i, n]), n));
    }
}

fn main() {}
