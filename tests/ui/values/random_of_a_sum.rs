use tilewright::prelude::*;

#[tile_kernel]
fn noise(x: &Tensor<i32, M, N>, y: &mut Tensor<u32, M>) {
    let i = program_tile(M);
    let n = whole(N);
    store(y, [i], random(1, sum(load(x, [i, n]), n), 0));
}

fn main() {}
