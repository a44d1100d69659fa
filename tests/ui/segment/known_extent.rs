use tilewright::prelude::*;

#[tile_kernel]
fn double(x: &Tensor<f32, M, 512>, y: &mut Tensor<f32, M, 512>) {
    let (i, j) = program_tile(M, 512);
    store(y, [i, j], load(x, [i, j]) * 2.0);
}

schedule! {
    fast for double {
        tile(i = 8, j = 192);
        segment(j: 512);
    }
}

fn main() {}
