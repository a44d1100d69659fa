use tilewright::prelude::*;

#[tile_kernel]
fn row_sums(x: &Tensor<f32, M, K>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut s = zeros::<f32>([i]);
    for k in tiles(K) {
        s = s + sum(load(x, [i, k]), k);
    }
    store(y, [i], s);
}

schedule! {
    fast for row_sums { tile(i = 16, k = 8); stage(x at k: shared); stage(x[i, k] at k: shared, transposed); bind(i -> thread.x); }
}

fn main() {}
