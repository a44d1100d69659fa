use tilewright::prelude::*;

#[tile_kernel]
fn doubled(x: &Tensor<i32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], (2 * load(x, [i])).cast::<f32>());
}

fn main() {}
