use tilewright::prelude::*;

#[tile_kernel]
fn moved(at: &Tensor<i32, N>, x: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(x, [i], load(x, [load(at, [i])]));
}

fn main() {}
