use tilewright::prelude::*;

#[tile_kernel]
fn product_of_sums(x: &Tensor<f32, R, N>, y: &Tensor<f32, R, N>, z: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(N);
    store(z, [r], sum(load(x, [r, n]), n) * sum(load(y, [r, n]), n));
}

schedule! {
    fast for product_of_sums { split(n -> no, nt: 128); bind(nt -> thread.x); }
}

fn main() {}
