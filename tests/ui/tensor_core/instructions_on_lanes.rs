use tilewright::prelude::*;

#[tile_kernel]
fn k(a: &Tensor<f16, M, K>, b: &Tensor<f16, K, N>, c: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc);
}

schedule! {
    fast for k {
        tile(i = 16, j = 8, k = 64);
        tensor_core(acc: mma);
        stage(a, b at k: shared);
        pad(a: 16, b: 16);
        reduce(acc: lane);
        bind(k.atom -> lane.x);
    }
}

fn main() {}
