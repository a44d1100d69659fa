use tilewright::prelude::*;

#[tile_kernel]
fn mantissas<T: Float>(x: &Tensor<T, N>, y: &mut Tensor<T, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) & 1023);
}

fn main() {}
