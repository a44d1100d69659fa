use tilewright::prelude::*;

#[tile_kernel]
fn both(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    atomic_add(y, [load(x, [i])], 1);
    store(y, [i], 0 + zeros::<i32>([i]));
}

fn main() {}
