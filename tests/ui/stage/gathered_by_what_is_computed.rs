use tilewright::prelude::*;

#[tile_kernel]
fn chosen(x: &Tensor<f32, V, N>, s: &Tensor<f32, M, V>, y: &mut Tensor<f32, M>) {
    let i = program_tile(M);
    let v = whole(V);
    let best = argmax(load(s, [i, v]), v);
    let mut acc = zeros::<f32>([i]);
    for n in tiles(N) {
        acc += sum(load(x, [best, n]), n);
    }
    store(y, [i], acc);
}

schedule! {
    scheduled for chosen {
        tile(i = 32, n = 8);
        bind(i -> thread.x);
        stage(x at n: shared);
    }
}

fn main() {}
