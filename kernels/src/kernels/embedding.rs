//! Rows of a table, chosen by integers: a gather.

use tilewright::prelude::*;

/// Row s of y is row `ids[s]` of the table, and zero where there is no such row.
#[tile_kernel]
pub fn embedding<T: Float>(ids: &Tensor<i32, S>, table: &Tensor<T, V, D>, y: &mut Tensor<T, S, D>) {
    let (s, d) = program_tile(S, D);
    store(y, [s, d], load(table, [load(ids, [s]), d]));
}

schedule! {
    /// Four elements a thread, moved by one instruction.
    pub row for embedding<f32 | f16 | bf16> {
        tile(s = 1, d = 1024);
        split(d -> dt, dv: 4);
        bind(dt -> thread.x);
        vectorize(dv);
    }
    /// Sixteen bytes of 16-bit elements, of four rows at once: more loads are on their way.
    pub rows for embedding<f16 | bf16> {
        tile(s = 4, d = 1024);
        split(d -> dt, dv: 8);
        bind(dt -> thread.x);
        unroll(s);
        vectorize(dv);
    }
    /// Begins while the launch before it ends.
    pub row_early on sm_90 = row { launch(dependent); }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![row, rows, row_early];
