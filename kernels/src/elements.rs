//! Functions of elements.

use crate::{
    Queue,
    choose::{self, Chosen},
    enqueue,
    forms::{Form, elements, seen, seen_mut},
    kernels::{gated, pointwise},
};
use tilewright::{Buffer, Error, Float, Kernel, Launch};

/// One tensor to one.
fn one<T: Float, K: Kernel>(
    on: &impl Queue,
    kernel: impl for<'a> FnOnce(&'a Buffer<T>, &'a mut Buffer<T>) -> Launch<'a, K>,
    schedule: Chosen,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let shape = elements([Form::of("x", x), Form::of("y", y)])?;
    let (x, mut y) = (seen(x, &shape)?, seen_mut(y, &shape)?);
    enqueue(kernel(&x, &mut y), schedule, on)
}

/// Sigmoid linear unit: `y = x · sigmoid(x)`, also called swish.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | any, the same | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::silu(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn silu<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    one(on, pointwise::silu, choose::silu(T::DTYPE), x, y)
}

/// Gaussian error linear unit: `y = x · (1 + erf(x / √2)) / 2`.
///
/// The error function is good to 1.5·10⁻⁷.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | any, the same | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::gelu(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn gelu<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    one(on, pointwise::gelu, choose::gelu(T::DTYPE), x, y)
}

/// The approximation of [`gelu`] by the hyperbolic tangent: `y = x · (1 + tanh(√(2/π) · (x + 0.044715·x³))) / 2`.
///
/// GPT-2 and Gemma were trained with it.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y` | any, the same | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::gelu_tanh(&stream, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn gelu_tanh<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    one(on, pointwise::gelu_tanh, choose::gelu_tanh(T::DTYPE), x, y)
}

/// Gated unit of feed-forward layers: `y = silu(gate) · up`.
///
/// `gate` and `up` may be the halves of one matrix, as views with gaps.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `gate`, `up`, `y` | any, the same; two dimensions where there are gaps | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, both: Buffer<f32>, rows: usize, n: usize, mut y: Buffer<f32>) -> Result<(), Error> {
/// let (gate, up) = (both.slice(&[0..rows, 0..n])?, both.slice(&[0..rows, n..2 * n])?);
/// tilewright_kernels::swiglu(&stream, &gate, &up, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn swiglu<T: Float>(
    on: &impl Queue,
    gate: &Buffer<T>,
    up: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let shape = elements([Form::of("gate", gate), Form::of("up", up), Form::of("y", y)])?;
    let (gate, up, mut y) = (seen(gate, &shape)?, seen(up, &shape)?, seen_mut(y, &shape)?);
    enqueue(gated::swiglu(&gate, &up, &mut y), choose::swiglu(T::DTYPE), on)
}

/// The sum of two tensors, such as a layer's result and what went around it: `z = x + y`.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x`, `y`, `z` | any, the same | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, residual: Buffer<f32>, mut z: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::add(&stream, &x, &residual, &mut z)?;
/// # Ok(())
/// # }
/// ```
pub fn add<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &Buffer<T>, z: &mut Buffer<T>) -> Result<(), Error> {
    let shape = elements([Form::of("x", x), Form::of("y", y), Form::of("z", z)])?;
    let (x, y, mut z) = (seen(x, &shape)?, seen(y, &shape)?, seen_mut(z, &shape)?);
    enqueue(gated::add(&x, &y, &mut z), choose::add(T::DTYPE), on)
}
