use tilewright::prelude::*;

#[tile_kernel]
fn double(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, j]) * 2.0);
}

schedule! {
    fast on sm_90 for double {
        tile(i = 8, j = 32);
        stage(x at j.o: shared, tma);
        segment(j: 82);
    }
}

fn main() {}
