use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<f16, M, N>, y: &mut Tensor<f16, N>) {
    let (i, j) = program_tile(M, N);
    atomic_add(y, [j], load(x, [i, j]));
}

fn main() {}
