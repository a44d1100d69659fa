use tilewright::prelude::*;

// ANCHOR: kernel
#[tile_kernel]
pub fn permuted(x: &Tensor<f32, N>, at: &Tensor<i32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [load(at, [i])]));
}
// ANCHOR_END: kernel

schedule! {
    // ANCHOR: schedule
    fours for permuted {
        tile(i = 1024);
        split(i -> it, iv: 4);
        bind(it -> thread.x);
        vectorize(iv);
    }
    // ANCHOR_END: schedule
}

fn main() {}
