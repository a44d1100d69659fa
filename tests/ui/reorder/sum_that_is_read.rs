use tilewright::prelude::*;

#[tile_kernel]
fn running(x: &Tensor<f32, R, M, N>, w: &Tensor<f32, M, N>, s: &Tensor<f32, R>, z: &mut Tensor<f32, R, M, N>) {
    let r = program_tile(R);
    let mut t = load(s, [r]);
    for m in tiles(M) {
        for n in tiles(N) {
            store(z, [r, m, n], load(x, [r, m, n]) + t);
            t = dot(load(x, [r, m, n]), load(w, [m, n]), t);
        }
    }
}

schedule! {
    fast for running { tile(r = 32, m = 4, n = 8); bind(r -> thread.x); reorder(n.o, m.o); }
}

fn main() {}
