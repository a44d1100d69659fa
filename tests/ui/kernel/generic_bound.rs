use tilewright::prelude::*;

#[tile_kernel]
fn kernel<T: Copy>(x: &Tensor<T, N>, y: &mut Tensor<T, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]));
}

fn main() {}
