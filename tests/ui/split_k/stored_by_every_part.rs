use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>, z: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(z, [r], zeros::<f32>([r]));
    let s = sum(load(x, [r, n]), n);
    store(y, [r], s);
}

schedule! {
    fast for sums { tile(r = 32, n = 32); bind(r -> thread.x); split_k(n, 4); }
}

fn main() {}
