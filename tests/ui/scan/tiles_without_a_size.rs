use tilewright::prelude::*;

#[tile_kernel]
fn each(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    for n in tiles(N) {
        store(y, [n], cumsum(load(x, [n]), n));
    }
}

schedule! {
    fast for each { tile(n = 64); }
    plain for each {}
}

fn main() {}
