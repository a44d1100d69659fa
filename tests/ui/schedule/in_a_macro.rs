use tilewright::prelude::*;

#[tile_kernel]
fn vector_add(a: &Tensor<f32, N>, b: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
    let i = program_tile(N);
    store(c, [i], load(a, [i]) + load(b, [i]));
}

macro_rules! tiled {
    ($name:ident, $tile:literal) => {
        schedule! {
            $name for vector_add { tile(i = $tile); bind(i -> thread.x); }
        }
    };
}

tiled!(good, 256);
tiled!(bad, 4096);

fn main() {}
