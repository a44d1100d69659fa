use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let mut total = 0.0f32;
    for j in tiles(N).below(i + 1) {
        total = total + sum(load(x, [j]), j);
    }
    store(y, [i], total + zeros::<f32>([i]));
}

fn main() {}
