use tilewright::prelude::*;

#[tile_kernel]
fn permuted(x: &Tensor<f32, N>, at: &Tensor<i32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [load(at, [i])]));
}

schedule! {
    scheduled for permuted {
        tile(i = 64);
        split(i -> it, iv: 4);
        bind(it -> thread.x);
        vectorize(iv);
    }
}

fn main() {}
