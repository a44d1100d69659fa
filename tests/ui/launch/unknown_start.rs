use tilewright::prelude::*;

#[tile_kernel]
fn vector_add(a: &Tensor<f32, N>, b: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(c, [i], load(a, [i]) + load(b, [i]));
}

schedule! {
    fast on sm_90 for vector_add { tile(i = 64); bind(i -> thread.x); launch(dependant); }
}

fn main() {}
