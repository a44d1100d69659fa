use tilewright::prelude::*;

#[tile_kernel]
fn layers(x: &Tensor<bf16, M, K>, up: &Tensor<bf16, K, F>, down: &Tensor<bf16, F, N>, y: &mut Tensor<f32, M, N>) {
    let i = program_tile(M);
    let (j, k) = whole(N, K);
    let mut acc = zeros::<f32>([i, j]);
    for f in tiles(F) {
        let h = dot(load(x, [i, k]), load(up, [k, f]), zeros::<f32>([i, f]));
        let g = max(h, 0.0);
        acc = dot(g.cast::<bf16>(), load(down, [f, j]), acc);
    }
    store(y, [i, j], acc);
}

schedule! {
    ahead on sm_90a for layers {
        fits(K <= 128, N <= 64);
        tile(i = 64, f = 64);
        split(k -> kw, km: 64);
        tensor_core(h: wgmma(64, 64));
        tensor_core(acc: wgmma(64, 64));
        stage(x at i: shared, tma);
        stage(up, down at f: shared, tma);
        swizzle(x: 128, up: 128, down: 128);
        pipeline(f, 2);
        produce(f: warpgroup);
        unroll(k.atom in h);
        bind(kw -> warpgroup.x);
        reduce(h: warp);
        skew(h);
    }
}

fn main() {}
