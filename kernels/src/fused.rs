//! Linear layers with what stands around them.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, product, seen, seen_mut},
    kernels::fused,
    linear, rms_norm,
};
use tilewright::{Buffer, Error, Float};

/// A linear layer behind [`rms_norm`]: `y = rms_norm(x, gain, eps)·weightᵀ`.
///
/// The last dimension of x and y is the row; all others count rows.
/// Up to 8 rows, in `f32` up to 16, take one launch, which reads the weight once and rounds nothing in between.
/// More rows take two: the normalised rows are rounded to `T`, and wait in a scratch buffer of the size of x.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K | `T` |
/// | `gain` | K | `T` |
/// | `weight` | N × K | `T` |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, gain: Buffer<f32>, w: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::norm_linear(&stream, &x, &gain, 1e-5, &w, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn norm_linear<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    gain: &Buffer<T>,
    eps: f32,
    weight: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    match choose::norm_linear(on.device(), T::DTYPE, m) {
        Some(schedule) => enqueue(fused::norm_linear(&x, gain, weight, &mut y, eps), schedule, on),
        None => {
            let mut scratch = Buffer::uninit(on.device(), &[m, k])?;
            rms_norm(on, &x, gain, eps, &mut scratch)?;
            linear(on, &scratch, weight, None, &mut y)
        }
    }
}

/// The first half of a gated feed-forward layer behind [`rms_norm`]: with `z = rms_norm(x, gain, eps)`,
/// `y = silu(z·gateᵀ) · (z·upᵀ)`.
///
/// The last dimension of x and y is the row; all others count rows.
/// Up to 8 rows, in `f32` up to 16, take one launch, which reads both weights once and rounds nothing in between.
/// More rows take three: z and its product with the gate are rounded to `T`, and z waits in a scratch buffer of the size of x.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K | `T` |
/// | `gain` | K | `T` |
/// | `gate`, `up` | N × K | `T` |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, gain: Buffer<f32>, gate: Buffer<f32>, up: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::norm_swiglu(&stream, &x, &gain, 1e-5, &gate, &up, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn norm_swiglu<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    gain: &Buffer<T>,
    eps: f32,
    gate: &Buffer<T>,
    up: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    match choose::norm_swiglu(on.device(), T::DTYPE, m) {
        Some(schedule) => enqueue(fused::norm_swiglu(&x, gain, gate, up, &mut y, eps), schedule, on),
        None => {
            let mut z = Buffer::uninit(on.device(), &[m, k])?;
            rms_norm(on, &x, gain, eps, &mut z)?;
            if let Some(both) = choose::swiglu_products(on.device(), T::DTYPE, [m, n, k]) {
                return enqueue(fused::swiglu_products(&z, gate, up, &mut y), both, on);
            }
            linear(on, &z, gate, None, &mut y)?;
            let schedule = choose::linear_gated(on.device(), T::DTYPE, [m, n, k]);
            enqueue(fused::linear_gated(&z, up, &mut y), schedule, on)
        }
    }
}

/// A linear layer added to what went around it, in place: `y = y + x·weightᵀ`, accumulated in `f32`.
///
/// The last dimension of x and y is the row; all others count rows.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K | `T` |
/// | `weight` | N × K | `T` |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, w: Buffer<f32>, mut residual: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::linear_add(&stream, &x, &w, &mut residual)?;
/// # Ok(())
/// # }
/// ```
pub fn linear_add<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    weight: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let size @ [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    let schedule = choose::linear_add(on.device(), T::DTYPE, size);
    enqueue(fused::linear_add(&x, weight, &mut y), schedule, on)
}
