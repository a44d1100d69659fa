use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<i8, M, N>, y: &mut Tensor<i32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    store(y, [i], sum(load(x, [i, n]), n));
}

fn main() {}
