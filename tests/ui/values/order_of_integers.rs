use tilewright::prelude::*;

#[tile_kernel]
fn sorted(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    store(y, [i], order(load(x, [i])));
}

fn main() {}
