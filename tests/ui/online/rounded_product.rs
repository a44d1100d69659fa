use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, w: &Tensor<f32, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let m = max(v, n);
    let p = (exp(v - m) * load(w, [n])).cast::<f16>();
    let q = sum(p, n);
    store(y, [r], q.cast::<f32>());
}

schedule! {
    fast for reduced { fits(N <= 64); online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
