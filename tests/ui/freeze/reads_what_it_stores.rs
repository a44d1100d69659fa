use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, M, N>, total: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut m = full::<f32>(f32::NEG_INFINITY, [i]);
    let mut l = zeros::<f32>([i]);
    for j in tiles(N) {
        let a = load(x, [i, j]);
        let top = max(m, max(a, j));
        l = l * exp(m - top) + sum(exp(a - top), j);
        m = top;
    }
    store(total, [i], load(total, [i]) + m + log(l));
}

schedule! {
    fast for sums {
        tile(i = 4, j = 8);
        bind(i -> thread.y);
        freeze(m);
    }
}

fn main() {}
