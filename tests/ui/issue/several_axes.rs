use tilewright::prelude::*;

#[tile_kernel]
fn rows(x: &Tensor<bf16, B, M, K>, w: &Tensor<bf16, B, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for h in tiles(B) {
        for k in tiles(K) {
            acc = dot(load(x, [h, i, k]), load(w, [h, k, j]), acc);
        }
    }
    store(c, [i, j], acc);
}

schedule! {
    fast on sm_90a for rows {
        tile(i = 64, j = 64, h = 1, k = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(x, w at k: shared, tma);
        swizzle(x: 128, w: 128);
        pipeline(k, 3);
        produce(k: warp);
        issue(acc: overwrite);
    }
}

fn main() {}
