//! Tokens on their way in: rows of tables, places in caches, angles of positions.

use crate::{Queue, choose, enqueue, kernels};
use tilewright::{Buffer, Error, Float};

/// Rows of a table: `y[s] = table[ids[s]]`, which others call `index_select`.
///
/// An id outside of the table, such as −1, gives a row of zeros.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `ids` | S | `i32` |
/// | `table` | V × D | `T` |
/// | `y` | S × D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, ids: Buffer<i32>, table: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::embedding(&stream, &ids, &table, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn embedding<T: Float>(
    on: &impl Queue,
    ids: &Buffer<i32>,
    table: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let rows = ids.shape().iter().product();
    enqueue(kernels::embedding::embedding(ids, table, y), choose::embedding(on.device(), T::DTYPE, rows), on)
}

/// Puts keys and values of new tokens into caches: `k_cache[slot[s]] = k[s]`, and the same of v.
///
/// A slot outside of the caches, such as −1, takes nothing.
/// All other slots of one call differ: the caller promises that.
/// Where two are equal, the slot has elements of either; the simulator reports it.
/// A paged cache of P pages with 16 places is one of L = 16·P slots: [`Buffer::reshaped_mut`].
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `k`, `v` | S × H × D | `T` |
/// | `slot` | S | `i32` |
/// | `k_cache`, `v_cache` | L × H × D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors). On the simulator also [`Error::Arguments`] where two slots are equal.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, k: Buffer<f32>, v: Buffer<f32>, slot: Buffer<i32>, mut kc: Buffer<f32>, mut vc: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::kv_append(&stream, &k, &v, &slot, &mut kc, &mut vc)?;
/// # Ok(())
/// # }
/// ```
pub fn kv_append<T: Float>(
    on: &impl Queue,
    k: &Buffer<T>,
    v: &Buffer<T>,
    slot: &Buffer<i32>,
    k_cache: &mut Buffer<T>,
    v_cache: &mut Buffer<T>,
) -> Result<(), Error> {
    let launch = kernels::kv_append::kv_append(k, v, slot, k_cache, v_cache);
    enqueue(launch, choose::kv_append(T::DTYPE), on)
}

/// Rows to where others say: `y[at[s]] = x[s]`.
///
/// A place outside of `y`, such as −1, takes nothing, and rows that no place names stay as they are.
/// All other places differ: the caller promises that.
/// Where two are equal, the row has elements of either; the simulator reports it.
/// [`embedding`] gathers rows; [`embedding_gradient`](crate::embedding_gradient) adds rows where places are equal.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `at` | S | `i32` |
/// | `x` | S × D | `T` |
/// | `y` | L × D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors). On the simulator also [`Error::Arguments`] where two places are equal.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, at: Buffer<i32>, x: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::scatter_rows(&stream, &at, &x, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn scatter_rows<T: Float>(
    on: &impl Queue,
    at: &Buffer<i32>,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<(), Error> {
    let rows = at.shape().iter().product();
    enqueue(kernels::scatter::scatter_rows(at, x, y), choose::scatter_rows(T::DTYPE, rows), on)
}

/// Rotary position embedding of halves, in place: element d of a head makes a pair with element d + D, as in GPT-NeoX and Llama's
/// published weights for `transformers`.
///
/// With the angle θ of `position[s]` and d, a pair (u, v) becomes (u·cos θ − v·sin θ, v·cos θ + u·sin θ).
/// Queries and keys take a call each.
/// A position outside of the tables gives zeros.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | S × H × 2·D | `T` |
/// | `position` | S | `i32` |
/// | `cos`, `sin` | P × D | `f32` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where the heads have an odd length.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, position: Buffer<i32>, cos: Buffer<f32>, sin: Buffer<f32>, mut q: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::rope(&stream, &position, &cos, &sin, &mut q)?;
/// # Ok(())
/// # }
/// ```
pub fn rope<T: Float>(
    on: &impl Queue,
    position: &Buffer<i32>,
    cos: &Buffer<f32>,
    sin: &Buffer<f32>,
    x: &mut Buffer<T>,
) -> Result<(), Error> {
    let half = match x.shape() {
        [_, _, head] if head.is_multiple_of(2) => head / 2,
        other => {
            return Err(Error::Shape(format!(
                "`x` of rope has tokens, heads, and pairs of elements in each, and its shape is {other:?}"
            )));
        }
    };
    let (mut a, mut b) = x.split_at_mut(2, half)?;
    enqueue(kernels::rope::rope(position, cos, sin, &mut a, &mut b), choose::rope(), on)
}

/// Rotary position embedding of neighbours, in place: element 2·d of a head makes a pair with element 2·d + 1, as in GPT-J and
/// Meta's own code for Llama.
///
/// Shapes, elements and the rest are those of [`rope`].
///
/// # Errors
/// Those of [`rope`].
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, position: Buffer<i32>, cos: Buffer<f32>, sin: Buffer<f32>, mut q: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::rope_interleaved(&stream, &position, &cos, &sin, &mut q)?;
/// # Ok(())
/// # }
/// ```
pub fn rope_interleaved<T: Float>(
    on: &impl Queue,
    position: &Buffer<i32>,
    cos: &Buffer<f32>,
    sin: &Buffer<f32>,
    x: &mut Buffer<T>,
) -> Result<(), Error> {
    enqueue(kernels::rope::rope_interleaved(position, cos, sin, x), choose::rope_interleaved(), on)
}
