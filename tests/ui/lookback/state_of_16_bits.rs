use tilewright::prelude::*;

#[tile_kernel]
fn most(x: &Tensor<f16, R, N>, y: &mut Tensor<f16, R, N>) {
    let r = program_tile(R);
    let mut before = zeros::<f16>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]);
        store(y, [r, n], max(v, before));
        before = max(before, max(v, n));
    }
}

schedule! {
    long for most {
        tile(r = 1, n = 64);
        reduce(before.max: cta);
        bind(n.t -> thread.x);
        lookback(n);
    }
}

fn main() {}
