use tilewright::prelude::*;

#[tile_kernel]
pub fn rms_norm(
    x: &Tensor<f32, R, N>,
    g: &Tensor<f32, N>,
    y: &mut Tensor<f32, R, N>,
    inverse_n: f32,
    eps: f32,
) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let s = sum(v * v, n);
    store(y, [r, n], v * rsqrt(s * inverse_n + eps) * load(g, [n]));
}

schedule! {
    // ANCHOR: schedule
    norm for rms_norm {
        fits(N <= 1024);
        tile(r = 4);
        split(n -> no, nl: 32);
        reduce(s: lane);
        bind(r -> warp.x, nl -> lane.x);
        vectorize(no);
    }
    // ANCHOR_END: schedule
}

fn main() {}
