use tilewright::prelude::*;

#[tile_kernel]
fn softmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let e = exp(v - max(v, n));
    store(y, [r, n], e / sum(e, n));
}

schedule! {
    fast for softmax {
        tile(r = 4);
        recompute(v, e);
        fuse(v, e at n);
        bind(r -> thread.x);
        split(n -> no, ni: 4);
        serpentine(ni in yy);
    }
}

fn main() {}
