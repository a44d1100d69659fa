use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<f32, N>, y: &mut Tensor<f32, 2>) {
    let n = whole(N);
    store(y, [0], sum(load(x, [n]), n));
}

schedule! {
    fast for total { tile(n = 1024); split(n -> no, nt: 256); bind(nt -> thread.x); reduce(y.sum: cta); split_k(n, 16; atomic); }
}

fn main() {}
