use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<i32, M, N>, y: &mut Tensor<i32, M>) {
    let i = program_tile(M);
    let mut last = zeros::<i32>([i]);
    for n in tiles(N) {
        last = last + sum(load(x, [i, n]), n);
        atomic_add(y, [i], 1 + zeros::<i32>([i]));
    }
    atomic_add(y, [i], last);
}

fn main() {}
