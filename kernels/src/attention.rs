//! Attention.

use crate::{
    Queue, choose, enqueue,
    forms::{Form, same, seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// The longest head.
pub(crate) const LONGEST: usize = 128;

/// Attention: `o = softmax(q·kᵀ · scale) · v` for each head of a batch, in one pass over the keys.
///
/// With `causal`, the last query sees all keys and each one before it sees one less.
/// So new tokens come last: of N keys, M queries are the last M.
/// A query that sees no key gets zeros.
///
/// H heads of queries share G heads of keys and values, H / G neighbours each: G = H is multi-head attention, G = 1 multi-query
/// attention.
/// Keys and values may be views with gaps, such as the first N places of a cache.
/// Of one query and many keys several CTAs take a part each, and a second launch joins the parts.
/// Scratch has D + 2 numbers in `f32` for each part and head of queries.
/// Tensor cores multiply `f16` and `bf16`; weights are rounded to `T` before they multiply values.
/// `scale` is positive: the greatest product of a row has its greatest weight.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `q`, `o` | B × H × M × D, D up to 128 | `T` |
/// | `k`, `v` | B × G × N × D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where heads are longer than 128, or H is no multiple of G;
/// [`Error::Arguments`] where `scale` is not positive.
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
    on: &impl Queue,
    q: &Buffer<T>,
    k: &Buffer<T>,
    v: &Buffer<T>,
    scale: f32,
    causal: bool,
    o: &mut Buffer<T>,
) -> Result<(), Error> {
    same([Form::of("q", q), Form::of("o", o)])?;
    if scale.is_nan() || scale <= 0.0 {
        let what = format!("`scale` is {scale}, and it has to be positive");
        return Err(Error::Arguments { kernel: "attention".into(), what });
    }
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
    let n = k.shape().get(2).copied().unwrap_or(0);
    let parts = choose::parts(b.saturating_mul(g), n);
    if m == 1 && parts > 1 {
        return decode(on, [q, k, v], scale, o, [b, g, parts, shared, n, d]);
    }
    // One query sees all keys: heads that share keys are rows of one tile then.
    let (shared, rows, causal) = if m == 1 { (1, shared, false) } else { (shared, m, causal) };
    let shape = [b, g, shared, rows, d];
    let (q, mut o) = (seen(q, &shape)?, seen_mut(o, &shape)?);
    let [full, limited] = choose::attention(on.device(), T::DTYPE, [rows, d]);
    match causal {
        false => enqueue(kernels::attention::attention(&q, k, v, &mut o, scale), full, on),
        true => enqueue(kernels::attention::causal_attention(&q, k, v, &mut o, scale), limited, on),
    }
}

/// One query a head: several CTAs take a part of the keys each, and a second launch joins what they have.
fn decode<T: Float>(
    on: &impl Queue,
    [q, k, v]: [&Buffer<T>; 3],
    scale: f32,
    o: &mut Buffer<T>,
    [b, g, parts, r, n, d]: [usize; 6],
) -> Result<(), Error> {
    // Whole tiles of 32 keys.
    let keys = n.div_ceil(parts).next_multiple_of(32);
    let parts = n.div_ceil(keys);
    let rows = b * g * parts * r;
    let mut scratch = Buffer::<f32>::uninit(on.device(), &[rows * (d + 2)])?;
    let (mut sums, mut rest) = scratch.split_at_mut(0, rows * d)?;
    let (mut most, mut total) = rest.split_at_mut(0, rows)?;
    let mut sums = sums.reshaped_mut(&[b, g, parts, r, d])?;
    let mut most = most.reshaped_mut(&[b, g, parts, r])?;
    let mut total = total.reshaped_mut(&[b, g, parts, r])?;
    let (q, mut o) = (seen(q, &[b, g, r, d])?, seen_mut(o, &[b, g, r, d])?);
    let [first, second] = choose::decode(on.device(), T::DTYPE, d);
    // As many keys as there are fit an `i32`: the launch checks that.
    let keys = i32::try_from(keys).unwrap_or(i32::MAX);
    let launch = kernels::decode::attention_parts(&q, k, v, &mut most, &mut total, &mut sums, keys, scale);
    enqueue(launch, first, on)?;
    enqueue(kernels::decode::attention_joined(&most, &total, &sums, &mut o), second, on)
}
