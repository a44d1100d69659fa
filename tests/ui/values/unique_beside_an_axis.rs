use tilewright::prelude::*;

#[tile_kernel]
fn append(k: &Tensor<f32, S, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<f32, L>) {
    let (s, d) = program_tile(S, D);
    store(cache, [d + unique(load(slot, [s]))], load(k, [s, d]));
}

fn main() {}
