use tilewright::prelude::*;

#[tile_kernel]
fn matvec(w: &Tensor<i8, N, K>, x: &Tensor<i8, K>, y: &mut Tensor<f32, N>) {
    let j = program_tile(N);
    let mut acc = zeros::<f32>([j]);
    for k in tiles(K) {
        acc = dot(load(w, [j, k]), load(x, [k]), acc);
    }
    store(y, [j], acc);
}

fn main() {}
