use tilewright::prelude::*;

#[tile_kernel]
fn columns(x: &Tensor<f32, M, N>, y: &mut Tensor<f32, N>) {
    let (i, j) = program_tile(M, N);
    atomic_add(y, [j], load(x, [i, j]));
}

schedule! {
    collected for columns { tile(i = 1, j = 128); bind(j -> thread.x); stage(y: shared, tma); }
}

fn main() {}
