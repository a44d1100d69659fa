use tilewright::prelude::*;

#[tile_kernel]
fn counts(w: &Tensor<i32, R>, x: &Tensor<i32, R, N>, y: &mut Tensor<i32, R, N>, z: &mut Tensor<i32, R>) {
    let r = program_tile(R);
    let mut before = zeros::<i32>([r]);
    store(z, [r], load(w, [r]));
    for n in tiles(N) {
        let v = load(x, [r, n]);
        store(y, [r, n], v + before);
        before += sum(v, n);
    }
}

schedule! {
    long for counts {
        tile(r = 1, n = 64);
        reduce(before.sum: cta);
        bind(n.t -> thread.x);
        lookback(n);
    }
}

fn main() {}
