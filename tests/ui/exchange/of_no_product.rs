use tilewright::prelude::*;

#[tile_kernel]
fn copy(x: &Tensor<bf16, M, N>, y: &mut Tensor<bf16, M, N>) {
    let (i, j) = program_tile(M, N);
    store(y, [i, j], load(x, [i, j]));
}

schedule! {
    fast for copy {
        tile(i = 8, j = 64);
        split(j -> jv, jr: 8);
        bind(i -> thread.y, jv -> thread.x);
        vectorize(jr);
        exchange(y);
    }
}

fn main() {}
