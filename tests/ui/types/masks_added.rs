use tilewright::prelude::*;

#[tile_kernel]
fn either(a: &Tensor<bool, N>, b: &Tensor<bool, N>, y: &mut Tensor<bool, N>) {
    let i = program_tile(N);
    store(y, [i], load(a, [i]) + load(b, [i]));
}

fn main() {}
