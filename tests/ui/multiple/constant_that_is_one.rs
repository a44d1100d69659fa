use tilewright::prelude::*;

#[tile_kernel]
fn twice(x: &Tensor<f32, R, 64>, y: &mut Tensor<f32, R, 64>) {
    let (r, n) = program_tile(R, 64);
    store(y, [r, n], load(x, [r, n]) * 2.0);
}

schedule! {
    fast for twice { multiple(n: 8); tile(r = 4, n = 32); }
}

fn main() {}
