use tilewright::prelude::*;

#[tile_kernel]
fn rowmax(x: &Tensor<f32, R, { 3 * N }>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(3 * N);
    store(y, [r], max(load(x, [r, n]), n));
}

schedule! {
    fast for rowmax { fits(N <= 1000000000); tile(r = 32); bind(r -> thread.x); }
}

fn main() {}
