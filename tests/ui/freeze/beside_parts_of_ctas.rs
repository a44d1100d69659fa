use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, M, N>, w: &Tensor<f32, M, K>, total: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
    let mut l = zeros::<f32>([i]);
    for j in tiles(N) {
        let a = load(x, [i, j]);
        let top = max(m, max(a, j));
        l = l * exp(m - top) + sum(exp(a - top), j);
        m = top;
    }
    let mut t = zeros::<f32>([i]);
    for k in tiles(K) {
        t = t + sum(load(w, [i, k]), k);
    }
    store(total, [i], (m + log(l)) * t);
}

schedule! {
    fast for sums {
        tile(i = 4, j = 8);
        bind(i -> thread.y);
        freeze(m);
        split_k(k, 4);
    }
}

fn main() {}
