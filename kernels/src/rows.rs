//! Functions of rows: what a row becomes depends on all of it.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, rows, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// Root mean square normalisation: `y = x / sqrt(mean(x²) + eps) · weight`, for each row.
///
/// The last dimension is the row; all others count rows.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | .. × N | `T` |
/// | `weight` | N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, weight: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::rms_norm(&stream, &x, &weight, 1e-5, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn rms_norm<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    weight: &Buffer<T>,
    eps: f32,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let shape = rows([Form::of("x", x), Form::of("y", y)])?;
    let (x, mut y) = (seen(x, &shape)?, seen_mut(y, &shape)?);
    enqueue(kernels::norm::rms_norm(&x, weight, &mut y, eps), choose::rms_norm(T::DTYPE, shape[1]), on)
}

/// Layer normalisation: `y = (x − mean) / sqrt(variance + eps) · weight + bias`, for each row.
///
/// The last dimension is the row; all others count rows.
/// The variance is that of the whole row, divided by N.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | .. × N | `T` |
/// | `weight`, `bias` | N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, weight: Buffer<f32>, bias: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::layer_norm(&stream, &x, &weight, &bias, 1e-5, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn layer_norm<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    weight: &Buffer<T>,
    bias: &Buffer<T>,
    eps: f32,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let shape = rows([Form::of("x", x), Form::of("y", y)])?;
    let (x, mut y) = (seen(x, &shape)?, seen_mut(y, &shape)?);
    let launch = kernels::norm::layer_norm(&x, weight, bias, &mut y, eps);
    enqueue(launch, choose::layer_norm(T::DTYPE, shape[1]), on)
}

/// Softmax of each row: `y = exp(x − max) / sum(exp(x − max))`.
///
/// The last dimension is the row; all others count rows.
/// A row of nothing but −∞ becomes NaN.
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
/// tilewright_kernels::softmax(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn softmax<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    let shape = rows([Form::of("x", x), Form::of("y", y)])?;
    let (x, mut y) = (seen(x, &shape)?, seen_mut(y, &shape)?);
    enqueue(kernels::softmax::softmax(&x, &mut y), choose::softmax(shape[1]), on)
}

/// Where the greatest element of each row is: greedy sampling of logits.
///
/// Of equal elements the first counts, and the first NaN counts as greatest.
/// In a row of no elements the place is `i32::MAX`.
/// Of few long rows several CTAs take a part each, and a second launch joins the parts: eight bytes of scratch a part.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | S × V | `T` |
/// | `y` | S | `i32` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, logits: Buffer<f32>, mut token: Buffer<i32>) -> Result<(), Error> {
/// tilewright_kernels::argmax(&stream, &logits, &mut token)?;
/// # Ok(())
/// # }
/// ```
pub fn argmax<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<i32>) -> Result<(), Error> {
    let parts = match x.shape() {
        &[rows, length] if y.shape() == [rows] => choose::argmax_parts(rows, length),
        _ => 1,
    };
    if parts == 1 {
        return enqueue(kernels::greedy::greedy(x, y), choose::argmax(), on);
    }
    let (rows, length) = (x.shape()[0], x.shape()[1].div_ceil(parts).next_multiple_of(choose::ARGMAX_PART));
    let shape = [rows, x.shape()[1].div_ceil(length)];
    let (mut most, mut place) = (Buffer::uninit(on.device(), &shape)?, Buffer::uninit(on.device(), &shape)?);
    let [first, second] = choose::argmax_in_parts(on.device());
    // A row has fewer elements: the launch checks that.
    let length = i32::try_from(length).unwrap_or(i32::MAX);
    enqueue(kernels::greedy::greedy_parts(x, &mut most, &mut place, length), first, on)?;
    enqueue(kernels::greedy::greedy_joined(&most, &place, y), second, on)
}

/// The longest row of [`top_k`] and of [`route`](crate::route).
const SHORT: usize = 256;

/// The length of short rows, and how many elements of each are wanted.
///
/// # Errors
/// [`Error::Shape`] where rows are too long, or have fewer.
pub(crate) fn short(
    function: &str,
    (name, shape): (&str, &[usize]),
    (out, wanted): (&str, &[usize]),
) -> Result<[usize; 2], Error> {
    match (shape, wanted) {
        (&[s, length], &[rows, count]) if s == rows && length <= SHORT && count <= length => {
            Ok([length, count])
        }
        _ => Err(Error::Shape(format!(
            "{function} takes `{name}` of rank 2 with rows of up to {SHORT} elements, and `{out}` with as many rows, none longer; their shapes are {shape:?} and {wanted:?}"
        ))),
    }
}

/// The C greatest elements of each short row, the greatest first, and where they are.
///
/// Of equal elements the first comes first; −0 is less than +0, and NaN is greatest.
/// With C = N it is a stable sort.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | S × N, N up to 256 | `T` |
/// | `value` | S × C, C up to N | `T` |
/// | `place` | S × C | `i32` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where rows are longer than 256, or shorter than C.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut value: Buffer<f32>, mut place: Buffer<i32>) -> Result<(), Error> {
/// tilewright_kernels::top_k(&stream, &x, &mut value, &mut place)?;
/// # Ok(())
/// # }
/// ```
pub fn top_k<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    value: &mut Buffer<T>,
    place: &mut Buffer<i32>,
) -> Result<(), Error> {
    let [length, _] = short("top_k", ("x", x.shape()), ("value", value.shape()))?;
    enqueue(kernels::route::top_k(x, value, place), choose::top_k(on.device(), length), on)
}
