use tilewright::prelude::*;

#[tile_kernel]
fn product(x: &Tensor<f16, S, K>, at: &Tensor<i32, M>, w: &Tensor<f16, K, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [load(at, [i]), k]), load(w, [k, j]), acc);
    }
    store(y, [i, j], acc);
}

schedule! {
    scheduled on sm_90a for product {
        tile(i = 64, j = 128, k = 64);
        tensor_core(acc: wgmma(64, 128));
        stage(x, w at k: shared, cp_async, vector(16));
        swizzle(x: 128, w: 128);
        pipeline(k, 4);
        produce(k: warp);
    }
}

fn main() {}
