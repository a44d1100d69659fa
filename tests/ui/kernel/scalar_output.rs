use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<f32, N>, y: &mut Tensor<f32>) {
    let mut s = zeros::<f32>([]);
    for n in tiles(N) {
        s += sum(load(x, [n]), n);
    }
    store(y, [], s);
}

fn main() {}
