use tilewright::prelude::*;

#[tile_kernel]
fn moments(x: &Tensor<f32, M, N>, total: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
    let mut l = zeros::<f32>([i]);
    for j in tiles(N) {
        let a = load(x, [i, j]);
        let top = max(m, max(a, j));
        l = l * exp2(m - top) + sum(exp2(a - top), j);
        m = top;
    }
    store(total, [i], m + log(l) * 1.5);
}

schedule! {
    fast for moments {
        tile(i = 4, j = 8);
        bind(i -> thread.y);
        freeze(m);
    }
}

fn main() {}
