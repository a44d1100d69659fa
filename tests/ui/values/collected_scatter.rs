use tilewright::prelude::*;

#[tile_kernel]
fn append(k: &Tensor<f32, S, D>, slot: &Tensor<i32, S>, cache: &mut Tensor<f32, L, D>) {
    let (s, d) = program_tile(S, D);
    store(cache, [unique(load(slot, [s])), d], load(k, [s, d]));
}

schedule! {
    scheduled on sm_90 for append {
        tile(s = 4, d = 64);
        bind(d -> thread.x);
        stage(cache: shared, tma);
    }
}

fn main() {}
