use tilewright::prelude::*;

#[tile_kernel]
fn copy(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, j]));
}

schedule! {
    fast for copy { tile(i = 8, j = 8); bind(j -> thread.x); order(backwards(0)); }
}

fn main() {}
