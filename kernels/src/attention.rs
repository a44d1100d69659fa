//! Attention.

use crate::{
    choose, enqueue,
    forms::{Form, same, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float, Stream};

/// The longest head.
const LONGEST: usize = 128;

/// Attention: `o = softmax(q·kᵀ · scale) · v` for each head of a batch, in one pass over the keys.
///
/// With `causal`, the last query sees all keys and each one before it sees one less.
/// So new tokens come last: of N keys, M queries are the last M.
/// A query that sees no key gets zeros.
///
/// H heads of queries share G heads of keys and values, H / G neighbours each: G = H is multi-head attention, G = 1 multi-query
/// attention.
/// Keys and values may be views with gaps, such as the first N places of a cache.
/// Tensor cores multiply `f16` and `bf16`; weights are rounded to `T` before they multiply values.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `q`, `o` | B × H × M × D, D up to 128 | `T` |
/// | `k`, `v` | B × G × N × D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where heads are longer than 128, or H is no multiple of G.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, q: Buffer<f32>, k: Buffer<f32>, v: Buffer<f32>, mut o: Buffer<f32>) -> Result<(), Error> {
/// let scale = 1.0 / (128.0f32).sqrt();
/// tilewright_kernels::attention(&stream, &q, &k, &v, scale, true, &mut o)?;
/// # Ok(())
/// # }
/// ```
pub fn attention<T: Float>(
    stream: &Stream,
    q: &Buffer<T>,
    k: &Buffer<T>,
    v: &Buffer<T>,
    scale: f32,
    causal: bool,
    o: &mut Buffer<T>,
) -> Result<(), Error> {
    same([Form::of("q", q), Form::of("o", o)])?;
    let &[b, h, m, d] = q.shape() else {
        return Err(Error::Shape(format!(
            "`q` of attention has batch, heads, queries and elements of a head, and its shape is {:?}",
            q.shape()
        )));
    };
    if d > LONGEST {
        return Err(Error::Shape(format!(
            "attention takes heads of up to {LONGEST} elements, and `q` has {d}"
        )));
    }
    let g = k.shape().get(1).copied().unwrap_or(0);
    let shared = match (h, g) {
        // Without heads there is nothing to share.
        (0, 0) => 0,
        _ if g > 0 && h.is_multiple_of(g) => h / g,
        _ => {
            return Err(Error::Shape(format!(
                "{h} heads of `q` of shape {:?} cannot share {g} heads of `k` of shape {:?}",
                q.shape(),
                k.shape()
            )));
        }
    };
    // One query sees all keys: heads that share keys are rows of one tile then.
    let (shared, rows, causal) = if m == 1 { (1, shared, false) } else { (shared, m, causal) };
    let shape = [b, g, shared, rows, d];
    let (q, mut o) = (seen(q, &shape)?, seen_mut(o, &shape)?);
    let [full, limited] = choose::attention(T::DTYPE, d);
    match causal {
        false => enqueue(kernels::attention::attention(&q, k, v, &mut o, scale), full, stream),
        true => enqueue(kernels::attention::causal_attention(&q, k, v, &mut o, scale), limited, stream),
    }
}
