//! The gradient of an embedding: rows added to those of a table, where several may meet.

use tilewright::prelude::*;

/// Adds row s of dy to row `ids[s]` of the table's gradient, and to none where there is no such row.
#[tile_kernel]
pub fn embed_gradient<T: Float>(ids: &Tensor<i64, S>, dy: &Tensor<T, S, D>, table: &mut Tensor<f32, V, D>) {
    let (s, d) = program_tile(S, D);
    atomic_add(table, [load(ids, [s]), d], load(dy, [s, d]).cast::<f32>());
}

schedule! {
    /// One element a thread.
    pub scalar for embed_gradient<f32 | f16 | bf16> {
        tile(s = 1, d = 256);
        bind(d -> thread.x);
    }
    /// Four elements a thread, added by one instruction.
    pub vectorized = scalar {
        tile(d = 1024);
        split(d -> dt, dv: 4);
        drop(bind(d));
        bind(dt -> thread.x);
        vectorize(dv);
    }
    /// Four elements a thread, far apart: neighbouring lanes add to neighbouring elements.
    pub spread = scalar {
        tile(d = 1024);
        split(d -> part, dt: 256);
        drop(bind(d));
        bind(dt -> thread.x);
        unroll(part);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![scalar, vectorized, spread];
