use tilewright::prelude::*;

#[tile_kernel]
fn reversed(x: &Tensor<f32, M, 64>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, 63 - j]));
}

schedule! {
    fast for reversed {
        tile(i = 8, j = 32);
        stage(x at j.o: shared);
        segment(j: 80);
    }
}

fn main() {}
