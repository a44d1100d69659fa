use tilewright::prelude::*;

#[tile_kernel]
fn scaled(x: &Tensor<f32, N, 6>, y: &mut Tensor<f32, N, 6>) {
    let i = program_tile(N);
    let c = whole(6);
    store(y, [i, c], load(x, [i, c]) * 2.0);
}

schedule! {
    fast for scaled { tile(i = 32, c = 8); split(c.t -> co, cv: 4); bind(i -> thread.x); vectorize(cv); }
}

fn main() {}
