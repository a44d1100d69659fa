use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, K, N>, w: &Tensor<f32, K, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let k = whole(K);
    let v = load(x, [r, k, n]);
    let m = max(v, n);
    let q = dot(exp(v - m), load(w, [k, n]), zeros::<f32>([r]));
    store(y, [r], q);
}

schedule! {
    fast for reduced { fits(N <= 16); fits(K <= 4); online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
