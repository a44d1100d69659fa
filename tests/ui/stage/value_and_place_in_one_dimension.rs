use tilewright::prelude::*;

#[tile_kernel]
fn windows(x: &Tensor<f32, V>, at: &Tensor<i32, N>, w: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let d = whole(3);
    let mut acc = zeros::<f32>([i]);
    for n in tiles(N) {
        acc += sum(sum(load(w, [i, n]) * load(x, [load(at, [n]) + d]), d), n);
    }
    store(y, [i], acc);
}

schedule! {
    scheduled for windows {
        tile(i = 32, n = 8);
        bind(i -> thread.x);
        stage(x at n: shared);
    }
}

fn main() {}
