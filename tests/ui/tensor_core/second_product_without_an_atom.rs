use tilewright::prelude::*;

#[tile_kernel]
fn chain(
    q: &Tensor<f16, M, D>,
    k: &Tensor<f16, N, D>,
    v: &Tensor<f16, N, E>,
    o: &mut Tensor<f32, M, E>,
) {
    let i = program_tile(M);
    let d = whole(D);
    let e = whole(E);
    let mut acc = zeros::<f32>([i, e]);
    for j in tiles(N) {
        let s = dot(load(q, [i, d]), load(k, [j, d]), zeros::<f32>([i, j]));
        acc = dot(s.cast::<f16>(), load(v, [j, e]), acc * 0.5);
    }
    store(o, [i, e], acc);
}

schedule! {
    fast for chain {
        fits(D <= 64, E <= 16);
        tile(i = 64, j = 32);
        tensor_core(s: mma);
        stage(q at i: shared);
        stage(k, v at j: shared);
    }
}

fn main() {}
