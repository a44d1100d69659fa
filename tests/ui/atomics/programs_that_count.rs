use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<i32, M, N>, y: &mut Tensor<i32, 1>) {
    let i = program_tile(M);
    let n = whole(N);
    atomic_add(y, [0], 1 + zeros::<i32>([n]));
    atomic_add(y, [0], sum(load(x, [i, n]), n));
}

fn main() {}
