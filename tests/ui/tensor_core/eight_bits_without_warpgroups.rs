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
    fast on sm_89 for product {
        layout(b: col);
        tile(i = 64, j = 64, k = 128);
        tensor_core(acc: wgmma(64, 64));
        stage(a at k: shared, vector(16));
        stage(b at k: shared, transposed, vector(16));
        swizzle(a: 128, b: 128);
    }
}

fn main() {}
