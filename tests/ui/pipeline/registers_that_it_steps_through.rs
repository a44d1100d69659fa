use tilewright::prelude::*;

#[tile_kernel]
fn centred(x: &Tensor<f32, R, N>, g: &Tensor<f32, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let n = whole(N);
    let v = load(x, [r, n]);
    let d = v - max(v, n);
    store(y, [r, n], d * sum(d, n) * load(g, [n]));
}

schedule! {
    fast for centred { fits(N <= 64); tile(r = 64, n = 12); stage(g at n.o: shared); pipeline(n.o, 2); bind(r.t -> thread.x); }
}

fn main() {}
