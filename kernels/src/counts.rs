//! Functions whose points meet: each adds to what is there.

use crate::{Queue, choose, enqueue, kernels};
use tilewright::{Buffer, Error, Float};

/// How often each number occurs, added to what was counted before: `h[x[n]] += 1`.
///
/// Numbers that are no place in h, such as −1, are left out.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | N | `i32` |
/// | `h` | B | `i32` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<i32>, mut h: Buffer<i32>) -> Result<(), Error> {
/// tilewright_kernels::histogram(&stream, &x, &mut h)?;
/// # Ok(())
/// # }
/// ```
pub fn histogram(on: &impl Queue, x: &Buffer<i32>, h: &mut Buffer<i32>) -> Result<(), Error> {
    let schedule = choose::histogram(h.shape().iter().product());
    enqueue(kernels::histogram::histogram(x, h), schedule, on)
}

/// The gradient of [`embedding`](crate::embedding), added to what is there: `table[ids[s]] += dy[s]`.
///
/// An id outside of the table, such as −1, adds nothing.
/// Rows with one id are added in any order.
/// So sums of three rows and more may differ from run to run by their rounding.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `ids` | S | `i32` |
/// | `dy` | S × D | `T` |
/// | `table` | V × D | `f32` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, ids: Buffer<i32>, dy: Buffer<f32>, mut table: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::embedding_gradient(&stream, &ids, &dy, &mut table)?;
/// # Ok(())
/// # }
/// ```
pub fn embedding_gradient<T: Float>(
    on: &impl Queue,
    ids: &Buffer<i32>,
    dy: &Buffer<T>,
    table: &mut Buffer<f32>,
) -> Result<(), Error> {
    enqueue(kernels::scatter::embedding_gradient(ids, dy, table), choose::embedding_gradient(), on)
}
