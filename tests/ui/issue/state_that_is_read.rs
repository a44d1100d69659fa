use tilewright::prelude::*;

#[tile_kernel]
fn running<T: Float>(k: &Tensor<T, N, D>, v: &Tensor<T, N, E>, o: &mut Tensor<f32, N, D, E>) {
    let (d, e) = program_tile(D, E);
    let mut st = zeros::<f32>([d, e]);
    for n in tiles(N) {
        store(o, [n, d, e], st + zeros::<f32>([n, d, e]));
        st = dot(load(k, [n, d]), load(v, [n, e]), st);
    }
}

schedule! {
    fast on sm_90a for running<bf16> {
        tile(d = 64, e = 64, n = 64);
        tensor_core(st: wgmma(64, 64));
        stage(k, v at n: shared, tma);
        swizzle(k: 128, v: 128);
        pipeline(n, 3);
        produce(n: warp);
        issue(st: overwrite);
    }
}

fn main() {}
