use tilewright::prelude::*;

#[tile_kernel]
fn rowmax(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(y, [r], max(load(x, [r, n]), n));
}

schedule! {
    fast for rowmax { tile(r = 32, n = 720720); split(n.t -> no, ni: 77777); bind(r -> thread.x); }
}

fn main() {}
