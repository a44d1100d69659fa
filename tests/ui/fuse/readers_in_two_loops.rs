use tilewright::prelude::*;

#[tile_kernel]
fn merge(o: &Tensor<f32, H, S, D>, lse: &Tensor<f32, H, S>, y: &mut Tensor<f32, H, D>) {
    let (h, d) = program_tile(H, D);
    let s = whole(S);
    let w = exp(load(lse, [h, s]));
    let z = sum(w, s);
    store(y, [h, d], sum(w * load(o, [h, s, d]), s) / z);
}

schedule! {
    fast for merge { tile(h = 1, d = 32); bind(d -> thread.x); fuse(w at s); }
}

fn main() {}
