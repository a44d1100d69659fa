use tilewright::prelude::*;

#[tile_kernel]
fn vector_add(a: &Tensor<f32, N>, b: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(c, [i], load(a, [i]) + load(b, [i]));
}

schedule! {
    fast for vector_add {
        tile(i: 64);
        split(i -> it, ir);
        bind(i => thread.x);
        bind(i -> core);
        stage(a: global);
        unroll;
        order(zigzag);
        pipeline(i, 0);
        tile(i = 64) bind(i -> thread.x);
    }
}

fn main() {}
