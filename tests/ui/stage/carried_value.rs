use tilewright::prelude::*;

/// Products that go on from tile to tile, scaled by what the tiles before left.
#[tile_kernel]
fn scaled(x: &Tensor<f32, M, N>, v: &Tensor<f32, N, D>, y: &mut Tensor<f32, M, D>) {
    let i = program_tile(M);
    let d = whole(D);
    let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
    let mut acc = zeros::<f32>([i, d]);
    for j in tiles(N) {
        let s = load(x, [i, j]);
        let top = max(m, max(s, j));
        acc = dot(exp(s - top), load(v, [j, d]), acc * exp(m - top));
        m = top;
    }
    store(y, [i, d], acc);
}

schedule! {
    fast for scaled { fits(D <= 64); tile(i = 32, j = 16); stage(acc: shared); bind(i -> thread.x); }
}

fn main() {}
