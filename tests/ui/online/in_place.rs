use tilewright::prelude::*;

#[tile_kernel]
fn softmax(x: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let e = exp(v - max(v, n));
    store(x, [r, n], e / sum(e, n));
}

schedule! {
    fast for softmax { fits(N <= 64); online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
