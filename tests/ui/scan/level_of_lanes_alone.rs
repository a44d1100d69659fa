use tilewright::prelude::*;

#[tile_kernel]
fn rows(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r, n], cumsum(load(x, [r, n]), n));
}

schedule! {
    fast for rows { fits(N <= 64); tile(r = 1); split(n -> nw, nl: 32); bind(nw -> warp.x, nl -> lane.x); reduce(y.cumsum: lane); }
}

fn main() {}
