use tilewright::prelude::*;

#[tile_kernel]
fn greatest(x: &Tensor<i64, M, N>, y: &mut Tensor<i32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    store(y, [i], max(load(x, [i, n]), n));
}

fn main() {}
