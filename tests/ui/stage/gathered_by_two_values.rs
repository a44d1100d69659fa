use tilewright::prelude::*;

#[tile_kernel]
fn total(x: &Tensor<f32, V>, a: &Tensor<i32, N>, b: &Tensor<i32, N>, w: &Tensor<f32, M, N>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let mut acc = zeros::<f32>([i]);
    for n in tiles(N) {
        acc += sum(load(w, [i, n]) * load(x, [load(a, [n])]) * load(x, [load(b, [n])]), n);
    }
    store(y, [i], acc);
}

schedule! {
    scheduled for total {
        tile(i = 32, n = 8);
        bind(i -> thread.x);
        stage(x at n: shared);
    }
}

fn main() {}
