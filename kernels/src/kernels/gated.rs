//! Functions of two elements, row by row.

use tilewright::prelude::*;

/// z = x + y.
#[tile_kernel]
pub fn add<T: Float>(x: &Tensor<T, R, N>, y: &Tensor<T, R, N>, z: &mut Tensor<T, R, N>) {
    let (r, n) = program_tile(R, N);
    store(z, [r, n], load(x, [r, n]) + load(y, [r, n]));
}

/// y = silu(gate) · up.
#[tile_kernel]
pub fn swiglu<T: Float>(gate: &Tensor<T, R, N>, up: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
    let (r, n) = program_tile(R, N);
    let g = load(gate, [r, n]).cast::<f32>();
    store(y, [r, n], (g / (1.0 + exp(-g)) * load(up, [r, n]).cast::<f32>()).cast::<T>());
}

schedule! {
    /// Four elements a thread, moved by one instruction.
    pub add_4 for add<f32 | f16 | bf16> {
        tile(r = 1, n = 1024);
        split(n -> nt, nv: 4);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub add_8 for add<f16 | bf16> {
        tile(r = 1, n = 2048);
        split(n -> nt, nv: 8);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Four elements a thread, moved by one instruction.
    pub swiglu_4 for swiglu<f32 | f16 | bf16> = add_4 {}
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub swiglu_8 for swiglu<f16 | bf16> = add_8 {}
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![add_4, add_8, swiglu_4, swiglu_8];
