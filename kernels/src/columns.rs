//! Functions of matrices by columns.

use crate::{Queue, choose, enqueue, kernels::columns};
use tilewright::{Buffer, Error, Float};

/// The transpose of a matrix: `y = xᵀ`.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | M × N | `T` |
/// | `y` | N × M | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::transpose(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn transpose<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    enqueue(columns::transpose(x, y), choose::transpose(T::DTYPE), on)
}

/// The sum of each column of a matrix, in `f32`: the gradient of a bias.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | M × N | `T` |
/// | `y` | N | `f32` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::column_sum(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn column_sum<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<f32>) -> Result<(), Error> {
    let schedule = choose::column_sum(T::DTYPE, y.shape().iter().product());
    enqueue(columns::column_sum(x, y), schedule, on)
}
