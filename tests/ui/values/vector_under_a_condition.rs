use tilewright::prelude::*;

#[tile_kernel]
fn short(x: &Tensor<f32, N>, n: i32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    if i < n {
        store(y, [i], load(x, [i]));
    }
}

schedule! {
    scheduled for short {
        tile(i = 256);
        split(i -> it, iv: 4);
        bind(it -> thread.x);
        vectorize(iv);
    }
}

fn main() {}
