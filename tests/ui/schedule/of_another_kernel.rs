use tilewright::prelude::*;

#[tile_kernel]
fn vector_add(a: &Tensor<f32, N>, b: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(c, [i], load(a, [i]) + load(b, [i]));
}

#[tile_kernel]
fn double(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(y, [i], load(x, [i]) * 2.0);
}

schedule! {
    fast for vector_add { tile(i = 64); bind(i -> thread.x); }
}

fn main() {
    let device = Device::sim();
    let x = Buffer::<f32>::zeros(&device, &[8]).unwrap();
    let mut y = Buffer::<f32>::zeros(&device, &[8]).unwrap();
    let _ = double(&x, &mut y).schedule(fast);
}
