use tilewright::prelude::*;

#[tile_kernel]
fn rows(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r, n], cumsum(load(x, [r, n]), n));
}

schedule! {
    fast for rows { fits(N <= 64); tile(r = 2); fuse(y.cumsum at n); }
}

fn main() {}
