use tilewright::prelude::*;

#[tile_kernel]
fn shifted(x: &Tensor<f32, 1, K>, w: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = program_tile(1);
    let mut s = zeros::<f32>([i]);
    for k in tiles(K) {
        s = s + sum(load(x, [i, k]), k);
    }
    store(y, [i], s + load(w, [i]));
}

schedule! {
    fast on sm_90 for shifted {
        tile(i = 1);
        stage(w at i.o: shared); pipeline(i.o, 2);
        split_k(k, 2; cluster);
    }
}

fn main() {}
