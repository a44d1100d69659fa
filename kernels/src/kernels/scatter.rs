//! Rows to where others say: put there, or added.

use tilewright::prelude::*;

/// Adds row s of dy to row `ids[s]` of the table's gradient, and to none where there is no such row.
#[tile_kernel]
pub fn embedding_gradient<T: Float>(
    ids: &Tensor<i32, S>,
    dy: &Tensor<T, S, D>,
    table: &mut Tensor<f32, V, D>,
) {
    let (s, d) = program_tile(S, D);
    atomic_add(table, [load(ids, [s]), d], load(dy, [s, d]).cast::<f32>());
}

/// Row s of x goes to row `at[s]` of y, and nowhere where there is no such row.
#[tile_kernel]
pub fn scatter_rows<T: Float>(at: &Tensor<i32, S>, x: &Tensor<T, S, D>, y: &mut Tensor<T, L, D>) {
    let (s, d) = program_tile(S, D);
    store(y, [unique(load(at, [s])), d], load(x, [s, d]));
}

schedule! {
    /// Four elements a thread, added by one instruction.
    pub added for embedding_gradient<f32 | f16 | bf16> {
        tile(s = 1, d = 1024);
        split(d -> dt, dv: 4);
        bind(dt -> thread.x);
        vectorize(dv);
    }
    /// Four elements a thread.
    pub rows for scatter_rows<f32 | f16 | bf16> {
        tile(s = 1, d = 1024);
        split(d -> dt, dv: 4);
        bind(dt -> thread.x);
        vectorize(dv);
    }
    /// Eight elements of 16 bits, of four rows.
    pub rows_wide for scatter_rows<f16 | bf16> {
        tile(s = 4, d = 1024);
        split(d -> dt, dv: 8);
        bind(dt -> thread.x);
        unroll(s);
        vectorize(dv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![added, rows, rows_wide];
