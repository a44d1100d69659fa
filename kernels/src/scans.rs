//! Functions of what is known so far along a row.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, rows, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// The sums of each row so far: element n of a row of y is the sum of the elements 0 to n of that row of x.
///
/// The last dimension is the row; all others count rows.
/// Sums are in `f32`, and each is rounded once. Of a few rows of 16384 elements and more, CTAs add up the parts in the order in which
/// they are known, so that the last bit of a sum may differ between launches.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::cumsum(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn cumsum<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    let shape = rows([Form::of("x", x), Form::of("y", y)])?;
    let (x, mut y) = (seen(x, &shape)?, seen_mut(y, &shape)?);
    enqueue(kernels::scan::cumsum(&x, &mut y), choose::scan(shape)[0], on)
}

/// The elements of each row of x that are above a limit, in their order, from the start of the row of y on; `count` says how many.
///
/// What is behind them in y stays as it is.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | R × N | `T` |
/// | `count` | R | `i32` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>, mut count: Buffer<i32>) -> Result<(), Error> {
/// tilewright_kernels::compact(&stream, &x, 0.5, &mut y, &mut count)?;
/// # Ok(())
/// # }
/// ```
pub fn compact<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    limit: f32,
    y: &mut Buffer<T>,
    count: &mut Buffer<i32>,
) -> Result<(), Error> {
    let shape = rows([Form::of("x", x), Form::of("y", y)])?;
    enqueue(kernels::scan::compact(x, limit, y, count), choose::scan(shape)[1], on)
}
