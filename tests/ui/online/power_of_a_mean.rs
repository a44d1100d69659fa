use tilewright::prelude::*;

/// A sum so far says nothing of how far elements are from it.
#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let mean = sum(v, n);
    let l = sum(exp(v - mean), n);
    store(y, [r], l);
}

schedule! {
    fast for reduced { fits(N <= 64); online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
