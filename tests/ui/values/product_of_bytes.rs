use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<i8, M, K>, b: &Tensor<i8, K, N>, c: &mut Tensor<i32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<i32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc);
}

fn main() {}
