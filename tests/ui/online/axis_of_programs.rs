use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let m = max(v, n);
    let l = sum(exp(v - m), n);
    store(y, [r], l);
}

schedule! {
    fast for reduced { fits(N <= 64); online(r = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
