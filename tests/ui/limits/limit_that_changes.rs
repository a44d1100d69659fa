use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let mut end = i + 1;
    for k in tiles(N) {
        end = end + sum(k, k);
    }
    let j = whole(N).below(end);
    store(y, [i], sum(load(x, [j]), j));
}

fn main() {}
