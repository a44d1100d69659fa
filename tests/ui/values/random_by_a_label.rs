use tilewright::prelude::*;

#[tile_kernel]
fn noise(label: &Tensor<i64, N>, y: &mut Tensor<u32, N>) {
    let i = program_tile(N);
    store(y, [i], random(1, load(label, [i]), 0));
}

fn main() {}
