use tilewright::prelude::*;

#[tile_kernel]
fn short(x: &Tensor<f32, N>, n: i32, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    if i < n {
        store(y, [i], load(x, [i]));
    }
}

schedule! {
    scheduled on sm_90 for short {
        tile(i = 64);
        bind(i -> thread.x);
        stage(y: shared, tma);
    }
}

fn main() {}
