use tilewright::prelude::*;

#[tile_kernel]
fn shift(x: &Tensor<f32, N>, y: &mut Tensor<f32, {N + 4}>) {
    let i = program_tile(N);
    store(y, [i + 4], load(x, [i]));
}

schedule! {
    fast on sm_90 for shift {
        tile(i = 256);
        bind(i -> thread.x);
        stage(y: shared, tma);
    }
}

fn main() {}
