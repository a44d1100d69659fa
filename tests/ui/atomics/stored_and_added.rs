use tilewright::prelude::*;

#[tile_kernel]
fn both(x: &Tensor<i32, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    store(y, [i], 0 + zeros::<i32>([i]));
    atomic_add(y, [load(x, [i])], 1);
}

fn main() {}
