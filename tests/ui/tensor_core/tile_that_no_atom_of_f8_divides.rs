use tilewright::prelude::*;

#[tile_kernel]
fn product(a: &Tensor<f8, M, K>, b: &Tensor<f8, K, N>, c: &mut Tensor<bf16, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut acc = zeros::<f32>([i, j]);
    for k in tiles(K) {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<bf16>());
}

schedule! {
    fast on sm_90a for product {
        layout(b: col);
        tile(i = 64, j = 64, k = 48);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared, tma);
        stage(b at k: shared, transposed, tma);
    }
}

fn main() {}
