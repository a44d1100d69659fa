use tilewright::prelude::*;

#[tile_kernel]
fn shares(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    let s = cumsum(load(x, [r, n]), n);
    let m = max(s, n);
    store(y, [r], m + log(sum(exp(s - m), n)));
}

schedule! {
    fast for shares { online(n = 64); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
