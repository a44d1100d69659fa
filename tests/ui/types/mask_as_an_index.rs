use tilewright::prelude::*;

#[tile_kernel]
fn chosen(table: &Tensor<f32, 2>, keep: &Tensor<bool, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(table, [load(keep, [i])]));
}

fn main() {}
