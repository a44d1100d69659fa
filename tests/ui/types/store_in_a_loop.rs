use tilewright::prelude::*;

#[tile_kernel]
fn running(a: &Tensor<f32, M, K>, c: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut acc = zeros::<f32>([i]);
    for k in tiles(K) {
        acc = acc + sum(load(a, [i, k]), k);
        store(c, [i], acc);
    }
}

fn main() {}
