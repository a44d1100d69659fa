use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<i32, M, K>, b: &Tensor<i32, K, N>, c: &mut Tensor<i32, M, N>) {
    let (i, j) = program_tile(M, N);
    let k = whole(K);
    store(c, [i, j], dot(load(a, [i, k]), load(b, [k, j]), zeros::<i32>([i, j])));
}

fn main() {}
