use tilewright::prelude::*;

#[tile_kernel]
fn diagonal(x: &Tensor<f32, N>, y: &mut Tensor<f32, N, N>) {
    let i = program_tile(N);
    store(y, [i, i], load(x, [i]));
}

schedule! {
    fast on sm_90 for diagonal {
        tile(i = 64);
        bind(i -> thread.x);
        stage(y: shared, tma);
    }
}

fn main() {}
