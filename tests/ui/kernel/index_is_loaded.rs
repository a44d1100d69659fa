use tilewright::prelude::*;

#[tile_kernel]
fn gather(x: &Tensor<f32, K, N>, at: &Tensor<f32, M>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [load(at, [i]).cast::<i32>(), j]));
}

fn main() {}
