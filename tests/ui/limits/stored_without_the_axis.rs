use tilewright::prelude::*;

#[tile_kernel]
fn marks(first: &Tensor<i32, M>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let m = whole(M);
    let j = whole(4).below(load(first, [m]));
    store(y, [i], sum(zeros::<f32>([i, j]), j));
}

fn main() {}
