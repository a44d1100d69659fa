use tilewright::prelude::*;

#[tile_kernel]
fn layers(x: &Tensor<bf16, M, K>, up: &Tensor<bf16, K, F>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let k = whole(K);
    let mut total = zeros::<f32>([i]);
    for f in tiles(F) {
        let h = dot(load(x, [i, k]), load(up, [k, f]), zeros::<f32>([i, f]));
        total = total + sum(max(h, 0.0), f);
    }
    store(y, [i], total);
}

schedule! {
    ahead on sm_90a for layers {
        fits(K <= 128);
        tile(i = 64, f = 64);
        tensor_core(h: wgmma(64, 64));
        stage(x at i: shared, tma);
        stage(up at f: shared, tma);
        swizzle(x: 128, up: 128);
        pipeline(f, 2);
        produce(f: warp);
        unroll(k.atom in h);
        skew(h);
    }
}

fn main() {}
