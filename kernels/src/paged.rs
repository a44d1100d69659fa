//! Attention to a cache in pages.

use crate::{
    Queue,
    attention::LONGEST,
    choose, enqueue,
    forms::{seen, seen_mut},
    kernels,
};
use tilewright::{Buffer, Error, Float};

/// Tokens of a page.
const PAGE: usize = 16;

/// Attention of one query a sequence to a cache whose pages lie anywhere: a step of decoding.
///
/// Token t of sequence b has its key in `k_pages[pages[b, t / 16], t % 16]`, and its value in the same place of `v_pages`.
/// The first `len[b]` tokens count.
/// A sequence without tokens gets zeros.
/// Pages behind the last token may be any number, such as −1, and what is in the cache behind it may be NaN.
///
/// H heads of queries share G heads of keys and values, H / G neighbours each.
/// Several CTAs take a part of the tokens each, and a second launch joins the parts.
/// Scratch has D + 2 numbers in `f32` for each part and head of queries.
/// [`kv_append`](crate::kv_append) puts new tokens into the pages.
///
/// | Tensor | Shape | Elements |
/// |---|---|---|
/// | `q`, `o` | B × H × D, D up to 128 | `T` |
/// | `k_pages`, `v_pages` | P × 16 × G × D | `T` |
/// | `pages` | B × L | `i32` |
/// | `len` | B, up to 16·L each | `i32` |
///
/// # Errors
/// [Those of all functions](crate#errors); [`Error::Shape`] where heads are longer than 128, pages have not 16 tokens, or H is no multiple
/// of G.
///
/// ```no_run
/// # use tilewright::{Buffer, Error, Stream};
/// # fn f(stream: &Stream, q: Buffer<f32>, k: Buffer<f32>, v: Buffer<f32>, pages: Buffer<i32>, len: Buffer<i32>, mut o: Buffer<f32>) -> Result<(), Error> {
/// let scale = 1.0 / (128.0f32).sqrt();
/// tilewright_kernels::paged_attention(&stream, &q, [&k, &v], &pages, &len, scale, &mut o)?;
/// # Ok(())
/// # }
/// ```
pub fn paged_attention<T: Float>(
    on: &impl Queue,
    q: &Buffer<T>,
    [k_pages, v_pages]: [&Buffer<T>; 2],
    pages: &Buffer<i32>,
    len: &Buffer<i32>,
    scale: f32,
    o: &mut Buffer<T>,
) -> Result<(), Error> {
    let (&[b, h, d], &[_, PAGE, g, _], &[_, l]) = (q.shape(), k_pages.shape(), pages.shape()) else {
        return Err(Error::Shape(format!(
            "paged_attention takes `q` of sequences, heads and elements, `k_pages` of pages, {PAGE} tokens, heads and elements, and `pages` of sequences and pages; their shapes are {:?}, {:?} and {:?}",
            q.shape(),
            k_pages.shape(),
            pages.shape()
        )));
    };
    if d > LONGEST {
        return Err(Error::Shape(format!(
            "paged_attention takes heads of up to {LONGEST} elements, and `q` has {d}"
        )));
    }
    let r = h.checked_div(g).unwrap_or(h);
    if r * g != h || o.shape() != q.shape() {
        return Err(Error::Shape(format!(
            "{h} heads of `q` of shape {:?} cannot share {g} heads of `k_pages` of shape {:?} into `o` of shape {:?}",
            q.shape(),
            k_pages.shape(),
            o.shape()
        )));
    }
    let tokens = l.saturating_mul(PAGE);
    let each = tokens.div_ceil(choose::paged_parts(b, g, tokens)).next_multiple_of(PAGE).max(PAGE);
    let parts = tokens.div_ceil(each).max(1);
    let rows = b * parts * h;
    let mut scratch = Buffer::<f32>::uninit(on.device(), &[rows * (d + 2)])?;
    let (mut sums, mut rest) = scratch.split_at_mut(0, rows * d)?;
    let (mut most, mut weight) = rest.split_at_mut(0, rows)?;
    let mut sums = sums.reshaped_mut(&[b, parts, g, r, d])?;
    let mut most = most.reshaped_mut(&[b, parts, g, r])?;
    let mut weight = weight.reshaped_mut(&[b, parts, g, r])?;
    let (q, mut o) = (seen(q, &[b, g, r, d])?, seen_mut(o, &[b, g, r, d])?);
    let [first, second] = choose::paged_attention(on.device(), T::DTYPE, d, parts);
    // As many tokens as there are fit an `i32`: the launch checks that.
    let each = i32::try_from(each).unwrap_or(i32::MAX);
    let launch = kernels::paged::parts(
        &q,
        k_pages,
        v_pages,
        pages,
        len,
        &mut most,
        &mut weight,
        &mut sums,
        scale,
        each,
    );
    enqueue(launch, first, on)?;
    enqueue(kernels::paged::combine(&most, &weight, &sums, &mut o), second, on)
}
