use tilewright::prelude::*;

#[tile_kernel]
fn conv2d(x: &Tensor<f32, N, M>, w: &Tensor<f32, 3, 8>, y: &mut Tensor<f32, N, M>) {
    let (i, j) = program_tile(N, M);
    let p = whole(3);
    let q = whole(8);
    let f = load(x, [i + p - 1, j + q - 2]) * load(w, [p, q]);
    let a = sum(sum(f, q), p);
    store(y, [i, j], a);
}

schedule! {
    fast for conv2d { layout(w: col); tile(j = 5, p = 8); split(p.t -> pa, pb: 4); fuse(f at p); vectorize(pb in a.sum); }
}

fn main() {}
