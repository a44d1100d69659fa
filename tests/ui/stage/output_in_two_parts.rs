use tilewright::prelude::*;

#[tile_kernel]
fn both(x: &Tensor<f32, N>, y: &mut Tensor<f32, 2, N>) {
    let i = program_tile(N);
    let v = load(x, [i]);
    store(y, [0, i], v);
    store(y, [1, i], -v);
}

schedule! {
    fast on sm_90 for both {
        tile(i = 256);
        bind(i -> thread.x);
        stage(y: shared, tma);
    }
}

fn main() {}
