use tilewright::prelude::*;

#[tile_kernel]
fn lower(x: &Tensor<f32, N>, y: &mut Tensor<f32, 4>) {
    let i = program_tile(4);
    let n = whole(N);
    for j in tiles(4).below(n) {
        store(y, [i], load(x, [i]));
    }
}

fn main() {}
