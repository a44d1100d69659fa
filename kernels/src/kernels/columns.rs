//! Matrices by columns: turned, and summed.

use tilewright::prelude::*;

/// y = xᵀ.
#[tile_kernel]
pub fn transpose<T: Float>(x: &Tensor<T, M, N>, y: &mut Tensor<T, N, M>) {
    let (j, i) = program_tile(N, M);
    store(y, [j, i], load(x, [i, j]));
}

/// The sum of each column.
#[tile_kernel]
pub fn column_sum<T: Float>(x: &Tensor<T, M, N>, y: &mut Tensor<f32, N>) {
    let j = program_tile(N);
    let mut acc = zeros::<f32>([j]);
    for i in tiles(M) {
        acc += sum(load(x, [i, j]).cast::<f32>(), i);
    }
    store(y, [j], acc);
}

schedule! {
    /// A tile of 64 by 64 is turned on its way to shared memory; a thread stores four elements at once.
    pub turned_4 for transpose<f32> {
        tile(j = 64, i = 64);
        split(i -> it, iv: 4);
        split(j -> jo, jt: 16);
        stage(x at i: shared, transposed, vector(16));
        pad(x: 16);
        bind(it -> thread.x, jt -> thread.y);
        unroll(jo);
        vectorize(iv);
    }
    /// Eight elements of 16 bits at once.
    pub turned_8 for transpose<f16 | bf16> = turned_4 {
        split(i -> it, iv: 8);
        split(j -> jo, jt: 32);
    }
}

schedule! {
    /// Four columns a thread, of 64 rows in a step; 32 CTAs share the rows.
    pub columns_4 for column_sum<f32 | f16 | bf16> {
        tile(j = 128, i = 64);
        split(j -> jt, jv: 4);
        split(i -> io, it: 8);
        split_k(i, 32);
        reduce(acc: cta);
        bind(jt -> lane.x, it -> warp.x);
        unroll(io);
        vectorize(jv);
    }
    /// Eight columns of 16 bits.
    pub columns_8 for column_sum<f16 | bf16> = columns_4 {
        tile(j = 256);
        split(j -> jt, jv: 8);
        drop(vectorize(jv));
        vectorize(jv in acc);
        split_k(i, 16);
        occupancy(4);
    }
    /// Of few columns, more CTAs share the rows.
    pub columns_8_few = columns_8 {
        split_k(i, 64);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![turned_4, turned_8, columns_4, columns_8, columns_8_few];
