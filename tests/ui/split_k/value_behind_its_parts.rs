use tilewright::prelude::*;

#[tile_kernel]
fn squares(x: &Tensor<f32, R, K>, y: &mut Tensor<f32, R>, z: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut s = zeros::<f32>([r]);
    for k in tiles(K) {
        s = s + sum(load(x, [r, k]), k);
    }
    let t = exp(s);
    store(y, [r], s);
    store(z, [r], s * t);
}

schedule! {
    fast for squares { tile(r = 32); bind(r -> thread.x); recompute(s); split_k(k, 4); }
}

fn main() {}
