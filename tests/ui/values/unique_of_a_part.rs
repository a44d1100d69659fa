use tilewright::prelude::*;

#[tile_kernel]
fn append(k: &Tensor<f32, S>, slot: &Tensor<i32, S>, first: &Tensor<i32, S>, cache: &mut Tensor<f32, L>) {
    let s = program_tile(S);
    store(cache, [load(first, [s]) + unique(load(slot, [s]))], load(k, [s]));
}

fn main() {}
