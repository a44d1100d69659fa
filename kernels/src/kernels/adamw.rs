//! A step of AdamW.

use tilewright::prelude::*;

/// Moves the parameters p and both moments m and v by the gradient g (Loshchilov and Hutter 2019). `correct1` and `correct2` are
/// 1 / (1 − βᵗ) of the two moments.
#[tile_kernel]
pub fn adamw<T: Float>(
    g: &Tensor<T, N>,
    p: &mut Tensor<f32, N>,
    m: &mut Tensor<f32, N>,
    v: &mut Tensor<f32, N>,
    lr: f32,
    beta1: f32,
    beta2: f32,
    correct1: f32,
    correct2: f32,
    eps: f32,
    decay: f32,
) {
    let i = program_tile(N);
    let d = load(g, [i]).cast::<f32>();
    let q = load(p, [i]);
    let m1 = beta1 * load(m, [i]) + (1.0 - beta1) * d;
    let v1 = beta2 * load(v, [i]) + (1.0 - beta2) * d * d;
    store(p, [i], q - lr * (m1 * correct1 / (sqrt(v1 * correct2) + eps) + decay * q));
    store(m, [i], m1);
    store(v, [i], v1);
}

schedule! {
    /// Four parameters a thread, moved by one instruction.
    pub four for adamw<f32 | f16 | bf16> {
        tile(i = 1024);
        split(i -> it, iv: 4);
        bind(it -> thread.x);
        vectorize(iv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![four];
