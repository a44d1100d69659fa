use tilewright::prelude::*;

#[tile_kernel]
fn weighted(a: &Tensor<f32, M, K>, b: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let k = whole(K);
    let n = whole(N);
    let s = sum(load(a, [i, k]), k);
    store(y, [i], sum(load(b, [i, n]) * s, n));
}

schedule! {
    fast on sm_90 for weighted {
        tile(i = 32, k = 8, n = 8);
        split_k(k, 2);
        bind(i -> thread.x);
        stage(b at n: shared, tma);
        pipeline(n, 2);
        produce(n: warp);
    }
}

fn main() {}
