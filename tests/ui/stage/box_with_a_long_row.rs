use tilewright::prelude::*;

#[tile_kernel]
fn row_sums(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut s = zeros::<f32>([i]);
    for j in tiles(N) {
        s += sum(load(x, [i, j]), j);
    }
    store(y, [i], s);
}

schedule! {
    fast on sm_90 for row_sums {
        tile(i = 32, j = 288);
        bind(i -> thread.x);
        stage(x at j: shared, tma);
    }
}

fn main() {}
