use tilewright::prelude::*;

#[tile_kernel]
fn matmul<T: Float>(a: &Tensor<T, M, K>, b: &Tensor<T, K, N>, c: &mut Tensor<T, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    full for matmul<f32> { tile(i = 9, j = 5202, k = 8); split(j -> jr, jt: 306); bind(jt -> thread.x); stage(a, b at k: shared); }
    fast = full { swizzle(a: 32); }
}

fn main() {}
