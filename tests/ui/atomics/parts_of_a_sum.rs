use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<i32, M, N>, y: &mut Tensor<i32, 1>) {
    let i = program_tile(M);
    let n = whole(N);
    atomic_add(y, [0], sum(load(x, [i, n]), n));
}

schedule! {
    apart for total { tile(i = 1, n = 64); bind(n.t -> thread.x); reduce(y.sum: cta); split_k(n, 4); }
}

fn main() {}
