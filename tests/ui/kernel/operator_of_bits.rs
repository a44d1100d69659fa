use tilewright::prelude::*;

#[tile_kernel]
fn dropout(x: &Tensor<f32, N>, seed: i32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let h = i * 1103515245 + seed;
    store(y, [i], select((h ^ 255) > 0, load(x, [i]), 0.0));
}

fn main() {}
