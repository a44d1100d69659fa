use tilewright::prelude::*;

#[tile_kernel]
fn layers(x: &Tensor<f8, M, K>, up: &Tensor<f8, F, K>, down: &Tensor<f8, N, F>, y: &mut Tensor<f32, M, N>) {
    let i = program_tile(M);
    let (j, k) = whole(N, K);
    let mut acc = zeros::<f32>([i, j]);
    for f in tiles(F) {
        let h = dot(load(x, [i, k]), load(up, [f, k]), zeros::<f32>([i, f]));
        let w = h.cast::<f8>();
        acc = dot(w, load(down, [j, f]), acc);
    }
    store(y, [i, j], acc);
}

schedule! {
    fast on sm_90a for layers {
        fits(K <= 64, N <= 64);
        tile(i = 64, f = 64);
        tensor_core(h: wgmma(64, 64); swapped);
        tensor_core(acc: wgmma(64, 64));
        stage(x at i: shared, tma);
        stage(up, down at f: shared, tma);
        swizzle(x: 64, up: 64, down: 64);
    }
}

fn main() {}
