use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let j = whole(N).betwen(0, i);
    store(y, [i], sum(load(x, [j]), j));
}

fn main() {}
