use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let mut before = zeros::<f32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]);
        store(y, [r, n], cumsum(v, n) + before);
        before += sum(v, n);
    }
}

schedule! {
    long for sums {
        tile(r = 1, n = 256);
        split(n -> nt, nv: 2);
        reduce(y.cumsum, before.sum: cta);
        bind(nt -> thread.x);
        lookback(k, any_order);
    }
}

fn main() {}
