//! Rotary position embedding: pairs of elements turned by an angle that the position says.

use tilewright::prelude::*;

/// Turns the pairs of the two halves of each head, in place: a and b are the halves. Row `position[s]` of both tables has the angles.
#[tile_kernel]
pub fn rope<T: Float>(
    position: &Tensor<i32, S>,
    cos: &Tensor<f32, P, D>,
    sin: &Tensor<f32, P, D>,
    a: &mut Tensor<T, S, H, D>,
    b: &mut Tensor<T, S, H, D>,
) {
    let (s, h, d) = program_tile(S, H, D);
    let at = load(position, [s]);
    let c = load(cos, [at, d]);
    let t = load(sin, [at, d]);
    let u = load(a, [s, h, d]).cast::<f32>();
    let v = load(b, [s, h, d]).cast::<f32>();
    store(a, [s, h, d], (u * c - v * t).cast::<T>());
    store(b, [s, h, d], (v * c + u * t).cast::<T>());
}

/// The same of pairs of neighbours.
#[tile_kernel]
pub fn rope_interleaved<T: Float>(
    position: &Tensor<i32, S>,
    cos: &Tensor<f32, P, D>,
    sin: &Tensor<f32, P, D>,
    x: &mut Tensor<T, S, H, { 2 * D }>,
) {
    let (s, h, d) = program_tile(S, H, D);
    let at = load(position, [s]);
    let c = load(cos, [at, d]);
    let t = load(sin, [at, d]);
    let u = load(x, [s, h, 2 * d]).cast::<f32>();
    let v = load(x, [s, h, 2 * d + 1]).cast::<f32>();
    store(x, [s, h, 2 * d], (u * c - v * t).cast::<T>());
    store(x, [s, h, 2 * d + 1], (v * c + u * t).cast::<T>());
}

schedule! {
    /// Four pairs of two tokens a thread, of eight heads in a CTA.
    pub halves for rope<f32 | f16 | bf16> {
        tile(s = 2, h = 8, d = 64);
        split(d -> dt, dv: 4);
        bind(dt -> thread.x, h -> thread.y);
        unroll(s);
        vectorize(dv);
    }
    /// A pair a thread, of four heads in a CTA.
    pub neighbours for rope_interleaved<f32 | f16 | bf16> {
        tile(s = 1, h = 4, d = 64);
        bind(d -> thread.x, h -> thread.y);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![halves, neighbours];
