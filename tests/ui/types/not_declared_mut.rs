use tilewright::prelude::*;

#[tile_kernel]
fn row_sum(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let acc = zeros::<f32>([i]);
    for n in tiles(N) {
        acc = acc + sum(load(x, [i, n]), n);
    }
    store(y, [i], acc);
}

fn main() {}
