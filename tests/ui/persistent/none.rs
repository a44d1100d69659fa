use tilewright::prelude::*;

#[tile_kernel]
fn twice(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, j]) * 2.0);
}

schedule! {
    fast on sm_90 for twice {
        tile(i = 32, j = 32);
        bind(j -> thread.x, i -> thread.y);
        persistent(0);
    }
}

fn main() {}
