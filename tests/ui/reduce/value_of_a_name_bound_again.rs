use tilewright::prelude::*;

#[tile_kernel]
fn shadow(x: &Tensor<f32, R, N>, z: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let v = v - max(v, n);
    store(z, [r, n], v * 2.0);
}

schedule! {
    fast for shadow { split(n -> no, nt: 128); fuse(v.2 at n); reduce(v.max: cta); }
}

fn main() {}
