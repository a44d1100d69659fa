use tilewright::prelude::*;

#[tile_kernel]
fn masked(x: &Tensor<u8, N>, y: &mut Tensor<u8, N>) {
    let i = program_tile(N);
    let v = load(x, [i]);
    store(y, [i], select(v == -1, 0, v));
}

fn main() {}
