//! Cross-entropy: the probability of one element of each row, which a label chooses.

use tilewright::prelude::*;

/// −log softmax of row s of x at `label[s]`, and 0 where the label is −100.
#[tile_kernel]
pub fn cross_entropy<T: Float>(x: &Tensor<T, S, V>, label: &Tensor<i32, S>, y: &mut Tensor<f32, S>) {
    let s = program_tile(S);
    let n = whole(V);
    let v = load(x, [s, n]).cast::<f32>();
    let m = max(v, n);
    let t = load(label, [s]);
    let hit = load(x, [s, t]).cast::<f32>();
    store(y, [s], select(t == -100, 0.0, m + log(sum(exp(v - m), n)) - hit));
}

/// The same, in one pass over each row: the sum so far is scaled down when a greater element comes (Milakov and
/// Gimelshein 2018).
#[tile_kernel]
pub fn cross_entropy_online<T: Float>(x: &Tensor<T, S, V>, label: &Tensor<i32, S>, y: &mut Tensor<f32, S>) {
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
    let hit = load(x, [s, t]).cast::<f32>();
    store(y, [s], select(t == -100, 0.0, m + log(l) - hit));
}

schedule! {
    /// A row a CTA, read twice.
    pub two_passes for cross_entropy<f32 | f16 | bf16> {
        tile(s = 1);
        split(n -> no, nt, nv: 512, 4);
        recompute(v);
        fuse(v at n);
        reduce(m, y.sum: cta);
        bind(nt -> thread.x);
        vectorize(nv);
    }
    /// A row a CTA, read once, in tiles that each thread has eight vectors of.
    pub one_pass for cross_entropy_online<f32 | f16 | bf16> {
        tile(s = 1, n = 16384);
        split(n.t -> no, nt, nv: 512, 4);
        reduce(top.max, l.sum: cta);
        bind(nt -> thread.x);
        unroll(no);
        vectorize(nv);
    }
    /// Sixteen bytes of 16-bit elements a thread, in small CTAs, of which many fit: while one combines, others read.
    pub one_pass_small for cross_entropy_online<f16 | bf16> {
        tile(s = 1, n = 8192);
        split(n.t -> no, nt, nv: 128, 8);
        reduce(top.max, l.sum: cta);
        bind(nt -> thread.x);
        unroll(no);
        vectorize(nv);
    }
}

schedule! {
    /// The first text, in one pass as the second one goes, under the directives of `one_pass_small`.
    pub derived_small for cross_entropy<f16 | bf16> {
        online(n = 8192);
        tile(s = 1);
        split(n.t -> no, nt, nv: 128, 8);
        reduce(m.max, y.sum.sum: cta);
        bind(nt -> thread.x);
        unroll(no);
        vectorize(nv);
    }
}

/// All schedules.
pub const SCHEDULES: &[&dyn AnySchedule] = schedules![two_passes, one_pass, one_pass_small, derived_small];
