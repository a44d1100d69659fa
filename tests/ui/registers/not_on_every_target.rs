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
        tile(i = 256, j = 32);
        bind(i -> thread.x);
        stage(x at j: shared, tma);
        pipeline(j, 3);
        produce(j: warpgroup);
        registers(24, 184);
    }
}

fn main() {}
