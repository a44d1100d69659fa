use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, w: &Tensor<f32, N, D>, bias: &Tensor<f32, R, D>, y: &mut Tensor<f32, R, D>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let m = max(v, n);
    let e = whole(D);
    let acc = dot(exp(v - m), load(w, [n, e]), load(bias, [r, e]));
    store(y, [r, e], acc);
}

schedule! {
    fast for reduced { fits(N <= 64); fits(D <= 8); online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
