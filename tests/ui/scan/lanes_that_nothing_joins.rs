use tilewright::prelude::*;

#[tile_kernel]
fn rows(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r, n], cumsum(load(x, [r, n]), n));
}

schedule! {
    fast for rows { fits(N <= 64); tile(r = 2); split(n -> na, nl: 32); bind(r -> warp.x, nl -> lane.x); }
}

fn main() {}
