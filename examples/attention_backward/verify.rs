//! Attention and its gradients in float64, with the error that rounding may cause.

use rayon::prelude::*;
use std::{f64::consts::LN_2, f64::consts::LOG2_E, ops::Range};
use tilewright::{
    DType, Float,
    verify::{U, half_ulp},
};

/// Result, reference and bound of an element.
pub type Check = (f64, f64, f64);

/// Rows that are checked where all of them would take too long: the first, the last, and others in between.
const SAMPLED: usize = 512;
/// Multiply-adds that are checked in full.
const MOST: usize = 1 << 28;

/// Batch, heads, queries, keys, head dimension.
#[derive(Clone, Copy)]
pub struct Shape {
    pub b: usize,
    pub h: usize,
    pub m: usize,
    pub n: usize,
    pub d: usize,
}

/// Operands. Gradients follow from the two vectors as they are: a kernel that reads them is no better than they are.
pub struct Operands<'a, T> {
    pub size: Shape,
    pub scale: f32,
    pub causal: bool,
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    pub dout: &'a [T],
    pub lse: &'a [f32],
    pub delta: &'a [f32],
}

/// A number and how far off rounding may put it.
#[derive(Clone, Copy)]
struct Near {
    value: f64,
    off: f64,
}

/// A weight, and the gradient of its score.
struct Pair {
    weight: Near,
    gradient: Near,
}

/// Σ a·b, summed in `f32` in any order.
fn dot<T: Float>(a: &[T], b: &[T]) -> Near {
    let products = a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64());
    let (value, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
    Near { value, off: (a.len() as f64 + 2.0) * U * size }
}

/// Rounded to the type that tensor cores multiply.
fn rounded(dtype: DType, x: Near) -> Near {
    // What is less than the least normal number of the type loses more.
    let (roundoff, tiny) = match dtype {
        DType::F16 => (2f64.powi(-11), 2f64.powi(-25)),
        DType::BF16 => (2f64.powi(-8), 0.0),
        _ => (0.0, 0.0),
    };
    Near { off: x.off * (1.0 + roundoff) + x.value.abs() * roundoff + tiny, ..x }
}

/// Σ x·row over the points of a reduction, for each element of a row of `d`, times `scale`.
fn weighted<'a, T: Float>(
    d: usize,
    scale: f64,
    terms: impl ExactSizeIterator<Item = (Near, &'a [T])>,
) -> Vec<Near> {
    let order = (terms.len() as f64 + 2.0) * U;
    let mut sums = vec![Near { value: 0.0, off: 0.0 }; d];
    for (x, row) in terms {
        for (sum, y) in sums.iter_mut().zip(row) {
            let y = y.to_f64();
            sum.value += x.value * y;
            sum.off += (x.off + (x.value.abs() + x.off) * order) * y.abs();
        }
    }
    let scaled = |sum: Near| {
        let value = sum.value * scale;
        Near { value, off: sum.off * scale.abs() + value.abs() * 2.0 * U }
    };
    sums.into_iter().map(scaled).collect()
}

impl<T: Float> Operands<'_, T> {
    /// The keys that a query sees.
    pub fn seen(&self, query: usize) -> Range<usize> {
        let Shape { m, n, .. } = self.size;
        0..if self.causal { (query + 1 + n).saturating_sub(m).min(n) } else { n }
    }

    /// The queries that see a key.
    fn seeing(&self, key: usize) -> Range<usize> {
        let Shape { m, n, .. } = self.size;
        (if self.causal { (key + m).saturating_sub(n).min(m) } else { 0 })..m
    }

    /// Pairs of a query and a key that it sees.
    pub fn pairs(&self) -> usize {
        let Shape { b, h, m, .. } = self.size;
        b * h * (0..m).map(|i| self.seen(i).len()).sum::<usize>()
    }

    /// Some of so many rows, each with a reduction over `steps` points.
    fn chosen(&self, rows: usize, steps: usize) -> Vec<usize> {
        let all = rows.saturating_mul(steps).saturating_mul(self.size.d) <= MOST;
        match all || rows <= SAMPLED {
            true => (0..rows).collect(),
            false => (0..SAMPLED).map(|s| s * (rows - 1) / (SAMPLED - 1)).collect(),
        }
    }

    /// A row of queries or of what is as large; and one of keys or values.
    fn row<'b>(&self, of: &'b [T], row: usize) -> &'b [T] {
        &of[row * self.size.d..][..self.size.d]
    }

    /// The power of 2 that a score has.
    fn power(&self, query: usize, key: usize) -> Near {
        let factor = f64::from(self.scale) * LOG2_E;
        let s = dot(self.row(self.q, query), self.row(self.k, key));
        let value = s.value * factor;
        Near { value, off: s.off * factor.abs() + value.abs() * 4.0 * U }
    }

    /// What both gradients of scores are made of: rows of all heads.
    fn pair(&self, query: usize, key: usize) -> Pair {
        let (lse, delta) = (f64::from(self.lse[query]), f64::from(self.delta[query]));
        let x = self.power(query, key);
        let value = (x.value - lse).exp2();
        let relative = (x.off + (x.value - lse).abs() * U) * LN_2 + 4.0 * U;
        let weight = Near { value, off: value * relative };
        let dp = dot(self.row(self.dout, query), self.row(self.v, key));
        let rest = dp.value - delta;
        let off = weight.off * (rest.abs() + dp.off) + value * (dp.off + rest.abs() * 3.0 * U);
        Pair { weight, gradient: Near { value: value * rest, off } }
    }

    /// Compares a row of a result with its reference.
    fn compare(&self, result: &[T], row: usize, reference: &[Near]) -> Vec<Check> {
        let each = self.row(result, row).iter().zip(reference);
        each.map(|(x, near)| (x.to_f64(), near.value, near.off + half_ulp(T::DTYPE, near.value))).collect()
    }

    /// The gradients of keys and values.
    pub fn keys(&self, dk: &[T], dv: &[T]) -> Vec<Check> {
        let Shape { b, h, m, n, d } = self.size;
        let row = |row: usize| {
            let (head, key) = (row / n, row % n);
            let queries = self.seeing(key).map(|i| head * m + i);
            let pairs: Vec<(usize, Pair)> = queries.map(|query| (query, self.pair(query, row))).collect();
            let gradients =
                pairs.iter().map(|(query, p)| (rounded(T::DTYPE, p.gradient), self.row(self.q, *query)));
            let weights =
                pairs.iter().map(|(query, p)| (rounded(T::DTYPE, p.weight), self.row(self.dout, *query)));
            let mut checks = self.compare(dk, row, &weighted(d, f64::from(self.scale), gradients));
            checks.extend(self.compare(dv, row, &weighted(d, 1.0, weights)));
            checks
        };
        self.chosen(b * h * n, m).into_par_iter().flat_map_iter(row).collect()
    }

    /// The gradient of queries.
    pub fn queries(&self, dq: &[T]) -> Vec<Check> {
        let Shape { b, h, m, n, d } = self.size;
        let row = |row: usize| {
            let keys: Vec<usize> = self.seen(row % m).map(|j| row / m * n + j).collect();
            let gradients = keys
                .iter()
                .map(|&key| (rounded(T::DTYPE, self.pair(row, key).gradient), self.row(self.k, key)));
            self.compare(dq, row, &weighted(d, f64::from(self.scale), gradients))
        };
        self.chosen(b * h * m, n).into_par_iter().flat_map_iter(row).collect()
    }

    /// The products of rows that `delta` holds.
    pub fn rows(&self, o: &[T], delta: &[f32]) -> Vec<Check> {
        let Shape { b, h, m, .. } = self.size;
        let each = (0..b * h * m).into_par_iter().map(|row| {
            let near = dot(self.row(o, row), self.row(self.dout, row));
            (f64::from(delta[row]), near.value, near.off)
        });
        each.collect()
    }

    /// The forward pass: its result, and the logarithms of its sums. A row without keys is zero, and its logarithm −∞.
    pub fn forward(&self, o: &[T], lse: &[f32]) -> Vec<Check> {
        let Shape { b, h, m, n, d } = self.size;
        let row = |row: usize| {
            let keys: Vec<usize> = self.seen(row % m).map(|j| row / m * n + j).collect();
            let powers: Vec<Near> = keys.iter().map(|&key| self.power(row, key)).collect();
            let top = powers.iter().map(|x| x.value).fold(f64::NEG_INFINITY, f64::max);
            // `exp2` and its argument, and rescaling from tile to tile.
            let weight = |x: &Near| {
                let value = (x.value - top).exp2();
                let off = 2.0 * x.off * LN_2 + (8.0 + 4.0 * (x.value - top).abs() + n as f64) * U;
                Near { value, off: value * off }
            };
            let weights: Vec<Near> = powers.iter().map(weight).collect();
            let l: f64 = weights.iter().map(|w| w.value).sum();
            let off_l = weights.iter().map(|w| w.off).sum::<f64>() / l + 4.0 * U;
            let terms =
                weights.iter().zip(&keys).map(|(w, &key)| (rounded(T::DTYPE, *w), self.row(self.v, key)));
            let quotient = |sum: Near| match keys.is_empty() {
                true => sum,
                false => Near { value: sum.value / l, off: sum.off / l + (sum.value / l).abs() * off_l },
            };
            let sums: Vec<Near> = weighted(d, 1.0, terms).into_iter().map(quotient).collect();
            let mut checks = self.compare(o, row, &sums);
            let expected = top + l.log2();
            let bound = match keys.is_empty() {
                true => 0.0,
                false => off_l * LOG2_E + (l.log2().abs() * 4.0 + expected.abs() + top.abs()) * 2.0 * U,
            };
            checks.push((f64::from(lse[row]), expected, bound));
            checks
        };
        self.chosen(b * h * m, n).into_par_iter().flat_map_iter(row).collect()
    }

    /// What `verified` means.
    pub fn criterion(&self) -> String {
        "|x − ref| ≤ the errors of the products, exp2 and all sums, and the rounding of factors, to first order".into()
    }
}
