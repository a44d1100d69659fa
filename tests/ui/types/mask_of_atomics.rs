use tilewright::prelude::*;

#[tile_kernel]
fn seen(at: &Tensor<i32, N>, y: &mut Tensor<bool, L>) {
    let i = program_tile(N);
    atomic_max(y, [load(at, [i])], full::<bool>(true, [i]));
}

fn main() {}
