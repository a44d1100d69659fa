use tilewright::prelude::*;

/// Running maximum and rescaled sum of a row.
#[tile_kernel]
fn log_sum_exp(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
    let mut l = zeros::<f32>([i]);
    for j in tiles(N) {
        let v = load(x, [i, j]);
        let top = max(m, max(v, j));
        l = l * exp(m - top) + sum(exp(v - top), j);
        m = top;
    }
    store(y, [i], m + log(l));
}

schedule! {
    fast for log_sum_exp { tile(i = 32); bind(i -> thread.x); }
}

fn main() {}
