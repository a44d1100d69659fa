use tilewright::prelude::*;

#[tile_kernel]
fn conv1d(x: &Tensor<f32, { N + 3 }>, w: &Tensor<f32, 4>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    let r = whole(4);
    store(y, [i], sum(load(x, [i + r]) * load(w, [r]), r));
}

schedule! {
    fast for conv1d { tile(i = 32); split(i.t -> ia, ib: 4); bind(ia -> thread.x); reorder(r, ib in y.sum); vectorize(ib in y.sum); }
}

fn main() {}
