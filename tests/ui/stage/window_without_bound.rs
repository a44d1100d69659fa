use tilewright::prelude::*;

#[tile_kernel]
fn conv<T: Float>(x: &Tensor<T, B, { P + R - 1 }, { Q + S - 1 }, C>, w: &Tensor<T, R, S, C, F>, y: &mut Tensor<T, B, P, Q, F>) {
    let (b, p, q, f) = program_tile(B, P, Q, F);
    let r = whole(R);
    let s = whole(S);
    let mut acc = zeros::<f32>([b, p, q, f]);
    for c in tiles(C) {
        acc = dot(load(x, [b, p + r, q + s, c]), load(w, [r, s, c, f]), acc);
    }
    store(y, [b, p, q, f], acc.cast::<T>());
}

schedule! {
    fast on sm_90a for conv<f16> {
        tile(p = 1, q = 64, f = 64, c = 64);
        tensor_core(acc: wgmma(64, 64));
        stage(x, w at c: shared, tma);
        swizzle(x: 128, w: 128);
        pipeline(c, 3);
        produce(c: warpgroup);
    }
}

fn main() {}
