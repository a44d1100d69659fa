//! Layers of narrow types: integers of eight and four bits, floats of eight bits.

use crate::{
    Queue,
    choose::{self, Packed},
    enqueue,
    forms::{Form, product, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float, prelude::f8};

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

/// Weights that share a scale and a zero in [`linear_i4`], and points that share a scale in [`linear_f8`].
pub const GROUP: usize = 128;

/// A linear layer of weights of four bits: `y = x·wᵀ` where `w[j, k] = (q[j, k] − zero[j, k / 128]) · scale[j, k / 128]`.
///
/// Products are added up in `f32`.
/// Of up to 32 rows of x, and in `f32`, a scale multiplies the sum of a group; of more, each weight, which is rounded to `T`.
/// [`pack_i4`] makes the words.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K, a multiple of 128 | `T` |
/// | `weight` | N × K/8 | `u32`, eight q each |
/// | `scale` | N × K/128 | `T` |
/// | `zero` | N × K/128 | `u8`, below 128 |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, x: Buffer<f32>, q: &[u8], scale: Buffer<f32>, zero: Buffer<u8>, mut y: Buffer<f32>) -> Result<(), Error> {
/// // 64 rows of 256 weights.
/// let weight = Buffer::from_slice(x.device(), &tilewright_kernels::pack_i4(q), &[64, 32])?;
/// tilewright_kernels::linear_i4(&stream, &x, &weight, &scale, &zero, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn linear_i4<T: Float>(
    on: &impl Queue,
    x: &Buffer<T>,
    weight: &Buffer<u32>,
    scale: &Buffer<T>,
    zero: &Buffer<u8>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    whole_groups("x", x.shape(), k)?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    match choose::linear_i4(on.device(), T::DTYPE, m) {
        Packed::Weights(schedule) => {
            enqueue(kernels::packed::linear_i4(&x, weight, scale, zero, &mut y), schedule, on)
        }
        Packed::Groups(schedule) => {
            enqueue(kernels::packed::linear_i4_groups(&x, weight, scale, zero, &mut y), schedule, on)
        }
    }
}

/// The words of [`linear_i4`]: of each group of 128 weights, word w has weight 16e + w in its bits 4e to 4e + 3.
///
/// So a tensor core that takes 16 weights of a row at once finds one in each of 16 words, and eight times in the same words.
///
/// # Panics
/// Where the weights are no whole groups, or one does not fit in four bits.
pub fn pack_i4(q: &[u8]) -> Vec<u32> {
    assert!(q.len().is_multiple_of(GROUP), "{} weights are no whole groups of {GROUP}", q.len());
    if let Some(at) = q.iter().position(|q| *q > 15) {
        panic!("weight {at} is {}, and four bits hold 0 to 15", q[at]);
    }
    let word =
        |group: &[u8], w: usize| (0..8).fold(0, |word, e| word | u32::from(group[16 * e + w]) << (4 * e));
    q.chunks(GROUP).flat_map(|group| (0..16).map(move |w| word(group, w))).collect()
}

/// A length of whole groups.
///
/// # Errors
/// [`Error::Shape`].
fn whole_groups(name: &str, shape: &[usize], length: usize) -> Result<(), Error> {
    match length.is_multiple_of(GROUP) {
        true => Ok(()),
        false => Err(Error::Shape(format!(
            "`{name}` has shape {shape:?}, and {length} is no multiple of {GROUP}, for which there is one scale"
        ))),
    }
}

/// A linear layer of floats of eight bits with a scale for blocks of both factors:
/// `y[i, j] = Σ over g of x_scale[g, i] · weight_scale[j / 128, g] · Σ over the 128 k of g of x[i, k] · weight[j, k]`.
///
/// The sums of a block are those of tensor cores, which keep fewer bits than `f32`; blocks are added up in `f32`.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | .. × K, a multiple of 128 | `f8` |
/// | `x_scale` | K/128 × rows of x | `f32` |
/// | `weight` | N × K, N a multiple of 128 | `f8` |
/// | `weight_scale` | N/128 × K/128 | `f32` |
/// | `y` | .. × N | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors). A target before `sm_89` has no numbers of eight bits.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream, prelude::f8};
/// # fn f(stream: &Stream, x: Buffer<f8>, xs: Buffer<f32>, w: Buffer<f8>, ws: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::linear_f8(&stream, &x, &xs, &w, &ws, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn linear_f8<T: Float>(
    on: &impl Queue,
    x: &Buffer<f8>,
    x_scale: &Buffer<f32>,
    weight: &Buffer<f8>,
    weight_scale: &Buffer<f32>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let [m, n, k] = product(Form::of("x", x), Form::of("y", y))?;
    whole_groups("x", x.shape(), k)?;
    whole_groups("y", y.shape(), n)?;
    let (x, mut y) = (seen(x, &[m, k])?, seen_mut(y, &[m, n])?);
    let launch = kernels::scaled::linear_f8(&x, x_scale, weight, weight_scale, &mut y);
    enqueue(launch, choose::linear_f8(on.device(), T::DTYPE, m), on)
}
