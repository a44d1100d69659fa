use tilewright::prelude::*;

#[tile_kernel]
fn rowmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N - 4);
    store(y, [r], max(load(x, [r, n]), n));
}

schedule! {
    fast for rowmax { fits(N <= 4); tile(r = 32); bind(r -> thread.x); }
}

fn main() {}
