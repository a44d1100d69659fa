//! Attention in float64, with the error that rounding may cause.

use rayon::prelude::*;
use std::ops::Range;
use tilewright::{
    DType, Float,
    verify::{U, half_ulp},
};

/// Queries that are checked where all of them would take too long: the first, the last, and others in between.
const SAMPLED: usize = 512;
/// Multiply-adds that are checked in full.
const MOST: usize = 1 << 30;

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
    pub q: &'a [T],
    pub k: &'a [T],
    pub v: &'a [T],
    pub o: &'a [T],
    /// The keys that a query of a head sees. Where there are none, the result is to be 0.
    pub seen: &'a (dyn Fn(usize) -> Range<usize> + Sync),
}

/// Unit roundoff of an element type.
fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => U,
    }
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
        let wide = |x: &[T]| x.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        let first = row / m.max(1) * n * d;
        let (q, k, v) =
            (wide(&self.q[row * d..][..d]), wide(&self.k[first..][..n * d]), wide(&self.v[first..][..n * d]));
        let scale = f64::from(self.scale);
        // Each score, and how far off rounding may put it.
        let seen = (self.seen)(row % m.max(1));
        if seen.is_empty() {
            return self.o[row * d..][..d].iter().map(|o| (o.to_f64(), 0.0, 0.0)).collect();
        }
        let scores: Vec<(f64, f64)> = seen
            .clone()
            .map(|j| {
                let products = q.iter().zip(&k[j * d..]).map(|(a, b)| a * b);
                let (s, size) = products.fold((0.0, 0.0), |(s, size), p| (s + p, size + p.abs()));
                (s * scale, (d as f64 + 2.0) * U * size * scale.abs())
            })
            .collect();
        let top = scores.iter().fold(f64::NEG_INFINITY, |top, (s, _)| top.max(*s));
        // `exp` and its argument, and rescaling from tile to tile.
        let weights: Vec<(f64, f64)> = scores
            .iter()
            .map(|(s, off)| ((s - top).exp(), 2.0 * off + (8.0 + 4.0 * (s - top).abs() + n as f64) * U))
            .collect();
        let l: f64 = weights.iter().map(|(w, _)| w).sum();
        let off_l: f64 = weights.iter().map(|(w, off)| w * off).sum::<f64>() / l;
        let narrow = if T::DTYPE == DType::F32 { 0.0 } else { roundoff(T::DTYPE) };
        // What is less than the least normal number of the type loses more.
        let tiny = if T::DTYPE == DType::F16 { 2f64.powi(-25) } else { 0.0 };
        (0..d)
            .map(|e| {
                let (mut sum, mut off) = (0.0, 0.0);
                for (j, (w, off_w)) in seen.clone().zip(&weights) {
                    let v = v[j * d + e];
                    sum += w * v;
                    off += (w * (off_w + narrow) + tiny) * v.abs();
                }
                let expected = sum / l;
                let bound = off / l + expected.abs() * (off_l + 4.0 * U) + half_ulp(T::DTYPE, expected);
                (self.o[row * d + e].to_f64(), expected, bound)
            })
            .collect()
    }

    /// What `verified` means.
    pub fn criterion(&self) -> String {
        "|o − ref| ≤ the errors of q·k, exp, both sums and the rounding of p, to first order".into()
    }
}
