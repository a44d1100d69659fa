use tilewright::prelude::*;

#[tile_kernel]
fn embed(ids: &Tensor<i32, S>, table: &Tensor<f32, V, D>, y: &mut Tensor<f32, S, D>) {
    let (s, d) = program_tile(S, D);
    store(y, [s, d], load(table, [load(ids, [s]), d]));
}

schedule! {
    scheduled for embed {
        tile(s = 4, d = 64);
        bind(d -> thread.x);
        stage(table at d: shared);
    }
}

fn main() {}
