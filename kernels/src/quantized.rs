//! Layers of integers of eight bits.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, product, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// A linear layer of integers of eight bits: `y[i, j] = (x·weightᵀ)[i, j] · x_scale[i] · weight_scale[j]`.
///
/// The sum is in `i32`, and exact for up to 131,071 products.
/// The weight lies as PyTorch's `nn.Linear` has it: a row for each output.
/// The last dimension of x and y is the row; all others count rows.
/// Tensor cores multiply where there are more than 8 rows.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K | `i8` |
/// | `x_scale` | rows of x | `f32` |
/// | `weight` | N × K | `i8` |
/// | `weight_scale` | N | `f32` |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<i8>, xs: Buffer<f32>, w: Buffer<i8>, ws: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::linear_i8(&stream, &x, &xs, &w, &ws, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn linear_i8<T: Float>(
    on: &impl Queue,
    x: &Buffer<i8>,
    x_scale: &Buffer<f32>,
    weight: &Buffer<i8>,
    weight_scale: &Buffer<f32>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    let launch = kernels::quantized::linear_i8(&x, x_scale, weight, weight_scale, &mut y);
    enqueue(launch, choose::linear_i8(on.device(), [m, n, k]), on)
}
