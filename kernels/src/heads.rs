//! Heads between a projection and attention.

use crate::{
    Queue, choose, enqueue,
    forms::{seen, seen_mut},
    kernels::heads,
};
use tilewright::{Buffer, Error, Float};

/// Heads of one projection on their way to attention: queries are turned as by [`rope`](crate::rope) and go to `q`, keys are turned and
/// go to their cache, values go to theirs.
///
/// H heads of queries, then G of keys, then G of values lie side by side in `qkv`, as a product with their weights one below the other
/// leaves them.
/// Token m of sequence b has the angles of `position[b, m]`, and its key and value go to place `slot[b, m]` of each head of sequence b.
/// The first N places of a cache are what [`attention`](crate::attention) takes.
///
/// A position outside of the tables gives zeros.
/// A slot outside of the caches, such as −1, takes nothing.
/// All other slots of one sequence differ: the caller promises that.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `qkv` | B × M × (H + 2·G) × 2·D | `T` |
/// | `position`, `slot` | B × M | `i32` |
/// | `cos`, `sin` | P × D | `f32` |
/// | `q` | B × H × M × 2·D | `T` |
/// | `k_cache`, `v_cache` | B × G × L × 2·D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where heads have an odd length, or H is no multiple of G. On the simulator
/// also [`Error::Arguments`] where two slots are equal.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, qkv: Buffer<f32>, at: Buffer<i32>, cos: Buffer<f32>, sin: Buffer<f32>, mut q: Buffer<f32>, mut kc: Buffer<f32>, mut vc: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::rope_append(&stream, &qkv, &at, &at, [&cos, &sin], &mut q, [&mut kc, &mut vc])?;
/// # Ok(())
/// # }
/// ```
pub fn rope_append<T: Float>(
    on: &impl Queue,
    qkv: &Buffer<T>,
    position: &Buffer<i32>,
    slot: &Buffer<i32>,
    [cos, sin]: [&Buffer<f32>; 2],
    q: &mut Buffer<T>,
    [k_cache, v_cache]: [&mut Buffer<T>; 2],
) -> Result<(), Error> {
    let (&[b, h, m, length], &[_, g, l, _]) = (q.shape(), k_cache.shape()) else {
        return Err(Error::Shape(format!(
            "`q` and `k_cache` of rope_append have four dimensions each, and their shapes are {:?} and {:?}",
            q.shape(),
            k_cache.shape()
        )));
    };
    let shared = h.checked_div(g).unwrap_or(h);
    if g * shared != h || !length.is_multiple_of(2) {
        return Err(Error::Shape(format!(
            "`q` of rope_append has heads in pairs of elements, as many for each of the {g} heads of `k_cache`, and its shape is {:?}",
            q.shape()
        )));
    }
    let cache = [b, g, l, length];
    for (name, found, expected) in [
        ("qkv", qkv.shape(), [b, m, h + 2 * g, length]),
        ("k_cache", k_cache.shape(), cache),
        ("v_cache", v_cache.shape(), cache),
    ] {
        if found != expected {
            return Err(Error::Shape(format!(
                "`{name}` of rope_append has shape {found:?}, and with `q` of {:?} and {g} heads of keys it has {expected:?}",
                q.shape()
            )));
        }
    }
    let half = length / 2;
    let part = |from: usize, heads: usize, second: usize| {
        qkv.slice(&[0..b, 0..m, from..from + heads, second * half..(second + 1) * half])
    };
    let queries = [part(0, h, 0)?, part(0, h, 1)?];
    let by_key = [b, m, g, shared, half];
    let [qa, qb] = [seen(&queries[0], &by_key)?, seen(&queries[1], &by_key)?];
    let [ka, kb] = [part(h, g, 0)?, part(h, g, 1)?];
    let [va, vb] = [part(h + g, g, 0)?, part(h + g, g, 1)?];
    let mut out = seen_mut(q, &[b, g, shared, m, length])?;
    let (mut q_a, mut q_b) = out.split_at_mut(4, half)?;
    let (mut k_a, mut k_b) = k_cache.split_at_mut(3, half)?;
    let (mut v_a, mut v_b) = v_cache.split_at_mut(3, half)?;
    let launch = heads::rope_append(
        &qa, &qb, &ka, &kb, &va, &vb, position, slot, cos, sin, &mut q_a, &mut q_b, &mut k_a, &mut k_b,
        &mut v_a, &mut v_b,
    );
    enqueue(launch, choose::rope_append(on.device()), on)
}

/// The heads of each token side by side, as the linear layer behind [`attention`](crate::attention) takes them:
/// `y[b, m, h] = x[b, h, m]`.
///
/// Of one token a sequence both are the same, and [`Buffer::reshaped`] does without a launch.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `x` | B × H × M × D | `T` |
/// | `y` | B × M × H × D | `T` |
///
/// # Errors
/// [Those of all functions](crate#errors).
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, o: Buffer<f32>, mut y: Buffer<f32>) -> Result<(), Error> {
/// tilewright_kernels::merge_heads(&stream, &o, &mut y)?;
/// # Ok(())
/// # }
/// ```
pub fn merge_heads<T: Float>(on: &impl Queue, x: &Buffer<T>, y: &mut Buffer<T>) -> Result<(), Error> {
    enqueue(heads::merge_heads(x, y), choose::merge_heads(T::DTYPE), on)
}
