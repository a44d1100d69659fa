use tilewright::prelude::*;

#[tile_kernel]
fn chain(
    a: &Tensor<f16, M, D>,
    b: &Tensor<f16, D, N>,
    v: &Tensor<f16, N, E>,
    o: &mut Tensor<f32, M, E>,
) {
    let i = program_tile(M);
    let d = whole(D);
    let e = whole(E);
    let mut acc = zeros::<f32>([i, e]);
    for j in tiles(N) {
        let s = dot(load(a, [i, d]), load(b, [d, j]), zeros::<f32>([i, j]));
        acc = dot(s.cast::<f16>(), load(v, [j, e]), acc);
    }
    store(o, [i, e], acc);
}

schedule! {
    fast for chain {
        fits(E <= 16);
        tile(i = 16, j = 16, d = 8);
        tensor_core(acc: mma);
        reorder(i.row, d.o in s);
        stage(b at d: shared);
        stage(v at j: shared);
    }
}

fn main() {}
