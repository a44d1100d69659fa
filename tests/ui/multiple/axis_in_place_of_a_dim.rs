use tilewright::prelude::*;

#[tile_kernel]
fn twice(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let (r, n) = program_tile(R, N);
    store(y, [r, n], load(x, [r, n]) * 2.0);
}

schedule! {
    fast for twice { multiple(n: 8); tile(r = 4, n = 32); }
}

fn main() {}
