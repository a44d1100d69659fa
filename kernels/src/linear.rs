//! Linear layers.

use crate::{
    choose, enqueue,
    forms::{Form, rows, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float, Stream};

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
    stream: &Stream,
    x: &Buffer<T>,
    weight: &Buffer<T>,
    bias: Option<&Buffer<T>>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let ([m, k], [out, n]) = (rows([Form::of("x", x)])?, rows([Form::of("y", y)])?);
    if x.shape().len() != y.shape().len() || m != out {
        return Err(Error::Shape(format!(
            "shapes disagree: `y` has shape {:?}, and `x` has shape {:?}; all but the last dimension are the same",
            y.shape(),
            x.shape()
        )));
    }
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    let [bare, biased] = choose::linear(stream.device(), T::DTYPE, [m, n, k]);
    match bias {
        None => enqueue(kernels::linear::linear(&x, weight, &mut y), bare, stream),
        Some(bias) => enqueue(kernels::linear::linear_bias(&x, weight, bias, &mut y), biased, stream),
    }
}
