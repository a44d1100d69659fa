use tilewright::prelude::*;

#[tile_kernel]
fn twice(x: &Tensor<f32, N>, y: &mut Tensor<f32, R>, z: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut s = zeros::<f32>([r]);
    for n in tiles(N) {
        s = s + sum(load(x, [n]), n);
    }
    let t = exp(s);
    store(y, [r], s + t);
    store(z, [r], s * t);
}

schedule! {
    fast for twice { tile(r = 32); bind(r -> thread.x); recompute(s); recompute(t); split_k(n, 4); }
}

fn main() {}
