use tilewright::prelude::*;

#[tile_kernel]
fn window(
    x: &Tensor<f16, { M + R - 1 }, K>,
    w: &Tensor<f16, R, K, N>,
    y: &mut Tensor<f32, M, N>,
) {
    let (i, j) = program_tile(M, N);
    let r = whole(R);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(x, [i + r, k]), load(w, [r, k, j]), acc);
    }
    store(y, [i, j], acc);
}

schedule! {
    fast for window {
        fits(R <= 3);
        tile(i = 32, j = 16, k = 32);
        tensor_core(acc: mma);
        reorder(k.o, r);
        stage(x, w at k: shared);
        pad(x: 16, w: 16);
        bind(r -> warp.x);
        reduce(acc: warp);
    }
}

fn main() {}
