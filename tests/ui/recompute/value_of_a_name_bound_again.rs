use tilewright::prelude::*;

#[tile_kernel]
fn shifted(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let v = v - max(v, n);
    store(y, [r, n], v * sum(v, n));
}

schedule! {
    fast for shifted { tile(r = 4); bind(r -> thread.x); recompute(v); fuse(v at n); }
}

fn main() {}
