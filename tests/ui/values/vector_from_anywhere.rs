use tilewright::prelude::*;

#[tile_kernel]
fn windows(x: &Tensor<f32, N>, first: &Tensor<i32, M>, y: &mut Tensor<f32, M, 64>) {
    let i = program_tile(M);
    let n = whole(64);
    store(y, [i, n], load(x, [n + load(first, [i])]));
}

schedule! {
    scheduled for windows {
        tile(i = 1);
        split(n -> nt, nv: 4);
        bind(nt -> thread.x);
        vectorize(nv);
    }
}

fn main() {}
