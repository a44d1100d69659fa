use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, N, K>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let (j, k) = whole(N, K).below(i + 1);
    store(y, [i], sum(sum(load(x, [j, k]), k), j));
}

fn main() {}
