use tilewright::prelude::*;

#[tile_kernel]
fn count(keep: &Tensor<bool, M, N>, y: &mut Tensor<i32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    store(y, [i], sum(load(keep, [i, n]), n));
}

fn main() {}
