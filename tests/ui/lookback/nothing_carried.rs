use tilewright::prelude::*;

#[tile_kernel]
fn doubled(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    for n in tiles(N) {
        store(y, [r, n], 2.0 * load(x, [r, n]));
    }
}

schedule! {
    long for doubled {
        tile(r = 1, n = 64);
        bind(n.t -> thread.x);
        lookback(n);
    }
}

fn main() {}
