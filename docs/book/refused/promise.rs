use tilewright::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn append(k: &Tensor<f32, S, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<f32, L, D>) {
    let (s, d) = program_tile(S, D);
    store(cache, [load(slot, [s]), d], load(k, [s, d]));
}
// ANCHOR_END: kernel

fn main() {}
