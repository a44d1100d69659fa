use tilewright::prelude::*;

#[tile_kernel]
fn mean(x: &Tensor<f32, R, 8>, y: &mut Tensor<f32, R>) {
    let r = program_tile(R);
    let n = whole(8);
    store(y, [r], sum(load(x, [r, n]), n) / 8.0);
}

schedule! {
    fast on sm_90 for mean {
        tile(r = 4);
        stage(x at r.o: shared, vector(16));
        split_k(n, 3);
    }
}

fn main() {}
