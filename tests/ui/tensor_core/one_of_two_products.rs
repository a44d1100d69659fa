use tilewright::prelude::*;

#[tile_kernel]
fn same(
    a: &Tensor<f16, M, D>,
    b: &Tensor<f16, N, D>,
    u: &Tensor<f16, N, E>,
    v: &Tensor<f16, N, E>,
    x: &mut Tensor<f32, M, E>,
    y: &mut Tensor<f32, M, E>,
) {
    let i = program_tile(M);
    let d = whole(D);
    let e = whole(E);
    let mut p = zeros::<f32>([i, e]);
    let mut q = zeros::<f32>([i, e]);
    for j in tiles(N) {
        let s = dot(load(a, [i, d]), load(b, [j, d]), zeros::<f32>([i, j])).cast::<f16>();
        p = dot(s, load(u, [j, e]), p);
        q = dot(s, load(v, [j, e]), q);
    }
    store(x, [i, e], p + q);
    store(y, [i, e], q);
}

schedule! {
    fast for same {
        fits(D <= 16, E <= 16);
        tile(i = 16, j = 16);
        tensor_core(s.dot: mma);
        tensor_core(p: mma);
        stage(a at i: shared);
        stage(b, u at j: shared);
    }
}

fn main() {}
