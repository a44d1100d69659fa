//! Cross-entropy: the probability of one element of each row, which a label chooses.

use tilewright::prelude::*;

/// −log softmax of row s of x at `label[s]`, 0 where the label is `ignore_index`, and ∞ where it is no element of the row. One pass over
/// each row: the sum so far is scaled down when a greater element comes (Milakov and Gimelshein 2018).
#[tile_kernel]
pub fn cross_entropy<T: Float>(
    x: &Tensor<T, S, V>,
    label: &Tensor<i32, S>,
    loss: &mut Tensor<f32, S>,
    ignore_index: i32,
) {
    let s = program_tile(S);
    let mut m = full::<f32>(f32::MIN, [s]);
    let mut l = zeros::<f32>([s]);
    for n in tiles(V) {
        let v = load(x, [s, n]).cast::<f32>();
        let top = max(m, max(v, n));
        l = l * exp(m - top) + sum(exp(v - top), n);
        m = top;
    }
    let t = load(label, [s]);
    let known = select((t >= 0) & (t < V), m + log(l) - load(x, [s, t]).cast::<f32>(), f32::INFINITY);
    store(loss, [s], select(t == ignore_index, 0.0, known));
}

schedule! {
    /// A row a CTA, in tiles that each thread has eight vectors of.
    pub large for cross_entropy<f32 | f16 | bf16> {
        tile(s = 1, n = 16384);
        split(n.t -> no, nt, nv: 512, 4);
        reduce(top.max, l.sum: cta);
        bind(nt -> thread.x);
        unroll(no);
        vectorize(nv);
    }
    /// Sixteen bytes of 16-bit elements a thread, in small CTAs, of which many fit: while one combines, others read.
    pub small for cross_entropy<f16 | bf16> {
        tile(s = 1, n = 8192);
        split(n.t -> no, nt, nv: 128, 8);
        reduce(top.max, l.sum: cta);
        bind(nt -> thread.x);
        unroll(no);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![large, small];
