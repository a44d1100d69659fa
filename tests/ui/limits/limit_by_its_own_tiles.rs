use tilewright::prelude::*;

#[tile_kernel]
fn sums(x: &Tensor<f32, N>, to: &Tensor<i32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let mut total = zeros::<f32>([i]);
    for j in tiles(N) {
        let end = load(to, [j]);
        let l = whole(N).below(end);
        total += sum(load(x, [l]), l);
    }
    store(y, [i], total);
}

fn main() {}
