use tilewright::prelude::*;

#[tile_kernel]
fn rows(x: &Tensor<f64, M, K>, w: &Tensor<usize, { 2 * L }>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let l = whole(2 * L);
    let mut s = zeros::<f32>([i]);
    for k in tiles(K) {
        s += sum(load(x, [i, k]), k);
    }
    store(y, [i], s + sum(load(w, [l]), l));
}

fn main() {}
