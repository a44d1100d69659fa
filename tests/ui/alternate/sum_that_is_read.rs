use tilewright::prelude::*;

#[tile_kernel]
fn running(x: &Tensor<f32, R, N>, w: &Tensor<f32, N>, y: &mut Tensor<f32, R, N>) {
    let r = program_tile(R);
    let mut t = zeros::<f32>([r]);
    for n in tiles(N) {
        store(y, [r, n], load(x, [r, n]) + t);
        t = dot(load(x, [r, n]), load(w, [n]), t);
    }
}

schedule! {
    fast on sm_90 for running {
        tile(r = 32, n = 64);
        bind(r -> thread.x);
        stage(x at n: shared, tma);
        pipeline(n, 3);
        produce(n: warp);
        persistent(1);
        alternate(n);
    }
}

fn main() {}
