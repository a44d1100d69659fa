use tilewright::prelude::*;

#[tile_kernel]
fn spread(x: &Tensor<f32, M>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [2000000000 * i]));
}

schedule! {
    fast for spread { tile(i = 32); bind(i -> thread.x); }
}

fn main() {}
