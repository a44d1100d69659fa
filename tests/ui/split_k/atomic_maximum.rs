use tilewright::prelude::*;

#[tile_kernel]
fn greatest(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], max(load(x, [r, n]), n));
}

schedule! {
    fast for greatest { tile(r = 32, n = 32); bind(r -> thread.x); split_k(n, 4; atomic); }
}

fn main() {}
