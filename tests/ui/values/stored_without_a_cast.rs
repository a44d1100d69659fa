use tilewright::prelude::*;

#[tile_kernel]
fn counted(x: &Tensor<f32, N>, y: &mut Tensor<u8, N>) {
    let i = program_tile(N);
    store(y, [i], round(load(x, [i])));
}

fn main() {}
