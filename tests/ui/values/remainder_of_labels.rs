use tilewright::prelude::*;

#[tile_kernel]
fn bucketed(id: &Tensor<i64, N>, y: &mut Tensor<i32, N>) {
    let i = program_tile(N);
    store(y, [i], (load(id, [i]) % 1024).cast::<i32>());
}

fn main() {}
