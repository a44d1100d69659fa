use tilewright::prelude::*;

#[tile_kernel]
fn all(x: &Tensor<f32, R>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r, n], cummax(load(x, [r]), n));
}

fn main() {}
