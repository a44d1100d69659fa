use tilewright::prelude::*;

#[tile_kernel]
fn clipped(x: &Tensor<i8, N>, y: &mut Tensor<i8, N>) {
    let i = program_tile(N);
    let v = load(x, [i]);
    store(y, [i], select(v > 200, 0, v));
}

fn main() {}
