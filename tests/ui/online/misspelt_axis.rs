use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let column = whole(N);
    let v = load(x, [r, column]);
    let m = max(v, column);
    store(y, [r], m + log(sum(exp(v - m), column)));
}

schedule! {
    fast for reduced { online(colum = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
