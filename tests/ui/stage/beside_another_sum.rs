use tilewright::prelude::*;

#[tile_kernel]
fn rms_mm(x: &Tensor<f32, M, K>, w: &Tensor<f32, K, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let mut g = zeros::<f32>([i, j]);
    let mut q = zeros::<f32>([i]);
    for k in tiles(K) {
        g = dot(load(x, [i, k]), load(w, [k, j]), g);
        q += sum(load(x, [i, k]) * load(x, [i, k]), k);
    }
    store(y, [i, j], g * rsqrt(q + 1.0));
}

schedule! {
    fast for rms_mm { tile(i = 16, k = 16); split(j -> jo, ji: 16); bind(ji -> thread.x, i -> thread.y); stage(w at k: shared); }
}

fn main() {}
