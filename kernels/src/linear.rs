//! Linear layers.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, product, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// A linear layer: `y = x·weightᵀ + bias`, accumulated in `f32`.
///
/// The weight lies as PyTorch's `nn.Linear` has it: a row for each output.
/// The last dimension of x and y is the row; all others count rows.
/// Without a bias nothing is added.
/// Tensor cores multiply `f16` and `bf16` where there are more than 8 rows; `f32` is multiplied in full.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K | `T` |
/// | `weight` | N × K | `T` |
/// | `bias` | N | `T` |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, w: Buffer<f32>, b: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::linear(&stream, &x, &w, Some(&b), &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn linear<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    weight: &Buffer<T>,
    bias: Option<&Buffer<T>>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    let [bare, biased] = choose::linear(on.device(), T::DTYPE, [m, n, k]);
    match bias {
        None => enqueue(kernels::linear::linear(&x, weight, &mut y), bare, on),
        Some(bias) => enqueue(kernels::linear::linear_bias(&x, weight, bias, &mut y), biased, on),
    }
}
