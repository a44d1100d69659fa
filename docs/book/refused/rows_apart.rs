use tilewright::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn total(x: &Tensor<f32, M, N>, len: &Tensor<i32, M>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut all = zeros::<f32>([]);
    for j in tiles(N).below(load(len, [i])) {
        all = all * 0.5 + sum(load(x, [i, j]), j);
    }
    store(y, [i], all + zeros::<f32>([i]));
}
// ANCHOR_END: kernel

fn main() {}
