use tilewright::prelude::*;

#[tile_kernel]
fn kernel(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut total = zeros::<f32>([i]);
    for j in tiles(N) {
        total += load(x, [i, j]);
    }
    store(y, [i], total);
}

fn main() {}
