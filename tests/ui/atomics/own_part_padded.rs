use tilewright::prelude::*;

#[tile_kernel]
fn histogram(x: &Tensor<i32, N>, h: &mut Tensor<i32, 256>) {
    let i = program_tile(N);
    atomic_add(h, [load(x, [i])], 1);
}

schedule! {
    own for histogram { tile(i = 128); bind(i -> thread.x); stage(h: shared); pad(h: 16); }
}

fn main() {}
