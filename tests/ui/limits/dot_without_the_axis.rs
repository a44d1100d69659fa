use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<f32, K>, b: &Tensor<f32, K, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let k = whole(K).below(i + 1);
    store(y, [i, j], dot(load(a, [k]), load(b, [k, j]), zeros::<f32>([j])) + zeros::<f32>([i, j]));
}

fn main() {}
