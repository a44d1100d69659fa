use tilewright::prelude::*;

#[tile_kernel]
fn begin(x: &Tensor<f32, N>, y: &mut Tensor<f32, {N + 4}>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]));
}

schedule! {
    fast on sm_90 for begin {
        tile(i = 256);
        bind(i -> thread.x);
        stage(y: shared, tma);
    }
}

fn main() {}
