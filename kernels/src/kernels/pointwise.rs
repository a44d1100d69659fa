//! Functions of one element, row by row.

use tilewright::prelude::*;

/// y = x · sigmoid(x).
#[tile_kernel]
pub fn silu<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
    let (r, n) = program_tile(R, N);
    let v = load(x, [r, n]).cast::<f32>();
    store(y, [r, n], (v / (1.0 + exp(-v))).cast::<T>());
}

/// y = x · Φ(x), with the normal distribution's function Φ by `tanh` (Hendrycks and Gimpel 2016).
#[tile_kernel]
pub fn gelu_tanh<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
    let (r, n) = program_tile(R, N);
    let v = load(x, [r, n]).cast::<f32>();
    let inner = 0.7978845608 * (v + 0.044715 * (v * v * v));
    store(y, [r, n], (0.5 * v * (1.0 + tanh(inner))).cast::<T>());
}

/// y = x · Φ(x), with Φ by the error function (Abramowitz and Stegun 7.1.26: off by at most 1.5·10⁻⁷).
#[tile_kernel]
pub fn gelu<T: Float>(x: &Tensor<T, R, N>, y: &mut Tensor<T, R, N>) {
    let (r, n) = program_tile(R, N);
    let v = load(x, [r, n]).cast::<f32>();
    let z = abs(v) * 0.70710678;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    // Half of the complement of the error function at |x| / √2.
    let tail = 0.5 * p * exp(-(z * z));
    store(y, [r, n], (v * select(v > 0.0, 1.0 - tail, tail)).cast::<T>());
}

schedule! {
    /// Four elements a thread, moved by one instruction.
    pub silu_4 for silu<f32 | f16 | bf16> {
        tile(r = 1, n = 1024);
        split(n -> nt, nv: 4);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub silu_8 for silu<f16 | bf16> {
        tile(r = 1, n = 2048);
        split(n -> nt, nv: 8);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// Four elements a thread, moved by one instruction.
    pub gelu_tanh_4 for gelu_tanh<f32 | f16 | bf16> = silu_4 {}
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub gelu_tanh_8 for gelu_tanh<f16 | bf16> = silu_8 {}
    /// Four elements a thread, moved by one instruction.
    pub gelu_4 for gelu<f32 | f16 | bf16> = silu_4 {}
    /// Eight elements a thread: sixteen bytes of 16-bit ones.
    pub gelu_8 for gelu<f16 | bf16> = silu_8 {}
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] =
    schedules![silu_4, silu_8, gelu_tanh_4, gelu_tanh_8, gelu_4, gelu_8];
