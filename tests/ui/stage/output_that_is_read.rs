use tilewright::prelude::*;

#[tile_kernel]
fn add(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(y, [i]) + load(x, [i]));
}

schedule! {
    fast on sm_90 for add {
        tile(i = 256);
        bind(i -> thread.x);
        stage(y: shared, tma);
    }
}

fn main() {}
