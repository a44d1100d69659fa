use tilewright::prelude::*;

#[tile_kernel]
fn chain(
    a: &Tensor<f16, M, D>,
    b: &Tensor<f16, N, D>,
    w: &Tensor<f16, E, M>,
    o: &mut Tensor<f32, E, N>,
) {
    let i = whole(M);
    let (e, j) = program_tile(E, N);
    let d = whole(D);
    let s = dot(load(a, [i, d]), load(b, [j, d]), zeros::<f32>([i, j]));
    let t = dot(load(w, [e, i]), s.cast::<f16>(), zeros::<f32>([e, j]));
    store(o, [e, j], t);
}

schedule! {
    fast for chain {
        fits(D <= 64, M <= 64);
        tile(e = 32, j = 32);
        tensor_core(s: mma);
        tensor_core(t: mma);
        stage(a, b, w at j: shared);
        pad(a: 16, b: 16, w: 16);
    }
}

fn main() {}
