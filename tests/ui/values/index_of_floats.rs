use tilewright::prelude::*;

#[tile_kernel]
fn embed(ids: &Tensor<f32, S>, table: &Tensor<f32, V, D>, y: &mut Tensor<f32, S, D>) {
    let (s, d) = program_tile(S, D);
    store(y, [s, d], load(table, [load(ids, [s]), d]));
}

fn main() {}
