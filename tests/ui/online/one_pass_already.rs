use tilewright::prelude::*;

#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut m = full::<f32>(f32::NEG_INFINITY, [r]);
    let mut l = zeros::<f32>([r]);
    for n in tiles(N) {
        let v = load(x, [r, n]);
        let top = max(m, max(v, n));
        l = l * exp(m - top) + sum(exp(v - top), n);
        m = top;
    }
    store(y, [r], m + log(l));
}

schedule! {
    fast for reduced { online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
