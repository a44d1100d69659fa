//! Attention to numbers of eight bits in float64, with the error that rounding may cause.

use rayon::prelude::*;
use tilewright::{
    Float,
    prelude::f8,
    verify::{U, half_ulp},
};

/// Queries that are checked where all of them would take too long: the first, the last, and others in between.
const SAMPLED: usize = 512;
/// Multiply-adds that are checked in full.
const MOST: usize = 1 << 30;

/// What a tensor core adds at once: so many products of 8-bit factors, and the sum so far.
const AT_ONCE: usize = 32;
/// What each of these numbers may lose, and the result, of the largest one: it is cut off 13 bits below.
const CUT: f64 = 1.0 / 8192.0;
/// Rounding of a weight: half a step of four significant bits.
const HALF_STEP: f64 = 1.0 / 16.0;
/// Rounding of the smallest ones, which lie in steps of 2⁻⁹.
const LEAST: f64 = 1.0 / 1024.0;
/// Roundings of weights are independent of each other. Their sum is beyond so many times the root of the sum of their squares once in
/// thirty million sums (W. Hoeffding, "Probability Inequalities for Sums of Bounded Random Variables", 1963).
const TIMES: f64 = 6.0;

/// Batch, heads, queries, keys, head dimension.
#[derive(Clone, Copy)]
pub struct Shape {
    pub b: usize,
    pub h: usize,
    pub m: usize,
    pub n: usize,
    pub d: usize,
}

/// Operands and result of one run.
pub struct Attention<'a, T> {
    pub size: Shape,
    pub scale: f32,
    /// The greatest weight is 2 to the power of it.
    pub reach: f32,
    pub q: &'a [f8],
    pub k: &'a [f8],
    /// Transposed, as the kernel takes them.
    pub v: &'a [f8],
    /// Of each head.
    pub scores: &'a [f32],
    pub values: &'a [f32],
    pub o: &'a [T],
}

/// A sum of products as tensor cores add it, and what they may lose of it.
fn summed(products: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut lost, mut taken) = (0.0f64, 0.0, 0);
    let mut largest = 0.0f64;
    let numbers = (AT_ONCE + 2) as f64;
    for product in products {
        largest = largest.max(product.abs());
        sum += product;
        taken += 1;
        if taken == AT_ONCE {
            largest = largest.max(sum.abs());
            lost += numbers * CUT * largest;
            (largest, taken) = (sum.abs(), 0);
        }
    }
    let rest = if taken > 0 { numbers * CUT * largest.max(sum.abs()) } else { 0.0 };
    (sum, lost + rest)
}

impl<T: Float> Attention<'_, T> {
    /// Result, reference and bound of each element that is checked.
    pub fn checks(&self) -> Vec<(f64, f64, f64)> {
        let Shape { b, h, m, n, d } = self.size;
        let rows = b * h * m;
        let all = rows.saturating_mul(n).saturating_mul(d) <= MOST;
        let chosen: Vec<usize> = match all || rows <= SAMPLED {
            true => (0..rows).collect(),
            false => (0..SAMPLED).map(|s| s * (rows - 1) / (SAMPLED - 1)).collect(),
        };
        chosen.into_par_iter().flat_map_iter(|row| self.row(row)).collect()
    }

    fn row(&self, row: usize) -> Vec<(f64, f64, f64)> {
        let Shape { m, n, d, .. } = self.size;
        let head = row / m.max(1);
        let wide = |x: &[f8]| x.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        let (q, k, v) = (
            wide(&self.q[row * d..][..d]),
            wide(&self.k[head * n * d..][..n * d]),
            wide(&self.v[head * n * d..][..n * d]),
        );
        let scale = f64::from(self.scale) * f64::from(self.scores[head]);
        let values = f64::from(self.values[head]);
        // Each score, and how far off it may be.
        let scores: Vec<(f64, f64)> = k
            .chunks(d.max(1))
            .map(|k| summed(q.iter().zip(k).map(|(a, b)| a * b)))
            .map(|(s, off)| (s * scale, (off + 4.0 * U * s.abs()) * scale))
            .collect();
        let least = LEAST / f64::from(self.reach).exp2();
        let top = scores.iter().fold(f64::NEG_INFINITY, |top, (s, _)| top.max(*s));
        // Each weight; how far off it may be before it is rounded, of itself: its score, `exp2` and its argument, rescaling from tile to
        // tile; and by rounding.
        let weights: Vec<(f64, f64, f64)> = scores
            .iter()
            .map(|(s, off)| ((s - top).exp(), 2.0 * off + (16.0 + 4.0 * (s - top).abs() + n as f64) * U))
            .map(|(w, off)| (w, off, (w * HALF_STEP).max(least)))
            .collect();
        let l: f64 = weights.iter().map(|(w, ..)| w).sum();
        let off_l: f64 = weights.iter().map(|(w, off, _)| w * off).sum::<f64>() / l;
        v.chunks(n.max(1))
            .enumerate()
            .map(|(e, v)| {
                let terms = || weights.iter().zip(v);
                let (sum, lost) = summed(terms().map(|((w, ..), v)| w * v));
                let off: f64 = terms().map(|((w, off, _), v)| w * off * v.abs()).sum();
                let rounded: f64 = terms().map(|((.., rounded), v)| (rounded * v).powi(2)).sum();
                let expected = sum / l * values;
                let bound = (lost + off + TIMES * rounded.sqrt()) / l * values
                    + expected.abs() * (off_l + 4.0 * U)
                    + half_ulp(T::DTYPE, expected);
                (self.o[row * d + e].to_f64(), expected, bound)
            })
            .collect()
    }

    /// What `verified` means.
    pub fn criterion(&self) -> String {
        "|o − ref| ≤ what tensor cores cut off of both products, the errors of exp and the sum, to first order, and 6 times the root of \
         the squares of the roundings of p"
            .into()
    }
}
