use tilewright::prelude::*;

#[tile_kernel]
fn counts(x: &Tensor<i32, R, N>, y: &mut Tensor<i32, R, N>) {
    let r = program_tile(R);
    let mut before = zeros::<i32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]);
        let part = sum(max(v, before), n);
        store(y, [r, n], v + before);
        before += part;
    }
}

schedule! {
    long for counts {
        tile(r = 1, n = 64);
        reduce(part: cta);
        bind(n.t -> thread.x);
        lookback(n);
    }
}

fn main() {}
