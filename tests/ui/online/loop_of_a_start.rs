use tilewright::prelude::*;

/// The greatest element is 1 at least.
#[tile_kernel]
fn reduced(x: &Tensor<f32, R, N>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let mut m = full::<f32>(1.0, [r]);
    for n in tiles(N) {
        m = max(m, max(load(x, [r, n]), n));
    }
    let mut l = zeros::<f32>([r]);
    for k in tiles(N) {
        l += sum(exp(load(x, [r, k]) - m), k);
    }
    store(y, [r], l);
}

schedule! {
    fast for reduced { online(n = 16); tile(r = 4); bind(r -> thread.x); }
}

fn main() {}
