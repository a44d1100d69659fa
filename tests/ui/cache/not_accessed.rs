use tilewright::prelude::*;

#[tile_kernel]
fn double(x: &Tensor<f32, N>, spare: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) * 2.0f32);
}

schedule! {
    fast for double {
        tile(i = 128);
        bind(i -> thread.x);
        cache(spare: evict_first);
    }
}

fn main() {}
