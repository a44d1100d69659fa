use tilewright::prelude::*;

#[tile_kernel]
fn clamped(a: &Tensor<bf16, M, K>, c: &mut Tensor<f32, M, M>) {
    let (i, j) = program_tile(M, M);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        let least = max(load(a, [i, k]), 1.0);
        acc = sum(load(a, [j, k]).cast::<f32>() * least.cast::<f32>(), k) + acc;
    }
    store(c, [i, j], acc);
}

schedule! {
    fast on sm_90 for clamped {
        tile(i = 16, j = 8, k = 16);
        tensor_core(acc: mma);
        stage(a[j, k] at k.o: shared);
        stage(a at i.row: shared);
    }
}

fn main() {}
