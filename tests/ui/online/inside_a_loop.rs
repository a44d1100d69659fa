use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, w: &Tensor<f32, K>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let mut best = zeros::<f32>([r]);
    for k in tiles(K) {
        let v = load(x, [r, n]) * sum(load(w, [k]), k);
        let m = max(v, n);
        best = best + sum(exp(v - m), n);
    }
    store(y, [r], best);
}

schedule! {
    fast for reduced { fits(N <= 64); online(n = 16); tile(r = 4, k = 4); bind(r -> thread.x); }
}

fn main() {}
