use tilewright::prelude::*;

#[tile_kernel]
fn many(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    let a = load(x, [i, j]);
    let b = a * 0.5 + a;
    let c = b * 0.5 + a;
    let d = c * 0.5 + b;
    let e = d * 0.5 + c;
    let f = e * 0.5 + d;
    store(y, [i, j], f + e);
}

schedule! {
    fast for many { tile(i = 1024, j = 64); bind(j -> thread.x); split(i -> ia, ib: 2); bind(ib -> thread.y); }
}

fn main() {}
