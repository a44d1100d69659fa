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
        split(n -> no, nl: 32);
        reduce(emax, y.sum: lane);
        bind(r -> warp.x, nl -> lane.x);
    }
}

fn main() {}
