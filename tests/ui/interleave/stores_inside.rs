use tilewright::prelude::*;

#[tile_kernel]
fn double(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) * 2.0f32);
}

schedule! {
    fast for double {
        tile(i = 1024);
        split(i.t -> it, ir: 8);
        bind(it -> thread.x);
        fragment(x at ir);
        pipeline(ir, 2);
        interleave(ir: loads(1/2));
    }
}

fn main() {}
