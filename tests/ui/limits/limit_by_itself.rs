use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, N>, y: &mut Tensor<f32, 4>) {
    let i = program_tile(4);
    let j = whole(N).below(j + 1);
    store(y, [i], sum(load(x, [j]), j) + zeros::<f32>([i]));
}

fn main() {}
