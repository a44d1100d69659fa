use tilewright::prelude::*;

#[tile_kernel]
fn gram<T: Float>(a: &Tensor<T, M, K>, c: &mut Tensor<T, M, M>) {
    let (i, j) = program_tile(M, M);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(a, [j, k]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}

schedule! {
    fast for gram<f32> {
        tile(i = 16, j = 16, k = 8);
        stage(a[i, k] at k: shared);
        swizzle(a[j, k]: 32);
        bind(i -> thread.y, j -> thread.x);
    }
}

fn main() {}
