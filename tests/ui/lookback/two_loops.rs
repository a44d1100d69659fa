use tilewright::prelude::*;

#[tile_kernel]
fn counts(x: &Tensor<i32, R, N>, y: &mut Tensor<i32, R, N>, u: &Tensor<i32, R, M>, v: &mut Tensor<i32, R, M>) {
    let r = program_tile(R);
    let mut before = zeros::<i32>([r]);
    for n in tiles(N) {
        let part = sum(load(x, [r, n]), n);
        store(y, [r, n], load(x, [r, n]) + before);
        before += part;
    }
    let mut most = zeros::<i32>([r]);
    for m in tiles(M) {
        let top = max(load(u, [r, m]), m);
        store(v, [r, m], load(u, [r, m]) + most);
        most = max(most, top);
    }
}

schedule! {
    long for counts {
        tile(r = 1, n = 64, m = 64);
        reduce(part, top: cta);
        bind(n.t -> thread.x, m.t -> thread.x);
        lookback(n);
        lookback(m);
    }
}

fn main() {}
