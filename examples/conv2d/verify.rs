//! The convolution in float64, with the error that rounding may cause.

use super::{Size, Window};
use rayon::prelude::*;
use tilewright::{
    Float,
    verify::{U, half_ulp},
};

/// Multiply-adds that are checked in full.
const MOST: usize = 1 << 30;
/// Pixels that are checked where all of them would take too long: the first, the last, and others in between.
const SAMPLED: usize = 512;

/// Operands and result of one run.
pub struct Convolution<'a, T> {
    pub size: Size,
    pub window: Window,
    pub x: &'a [T],
    pub w: &'a [T],
    pub y: &'a [T],
}

impl<T: Float> Convolution<'_, T> {
    /// Terms of a sum.
    fn terms(&self) -> usize {
        self.window.r * self.window.s * self.size.c
    }

    /// As for products: rounding errors of random data grow with the square root of their number.
    fn gamma(&self) -> f64 {
        (4.0 / ((self.terms() + 1) as f64).sqrt()).min(1.0)
    }

    /// Result, reference and bound of each element that is checked.
    pub fn checks(&self) -> Vec<(f64, f64, f64)> {
        let Size { b, p, q, f, .. } = self.size;
        let pixels = b * p * q;
        let all = pixels.saturating_mul(f).saturating_mul(self.terms()) <= MOST;
        let chosen: Vec<usize> = match all || pixels <= SAMPLED {
            true => (0..pixels).collect(),
            false => (0..SAMPLED).map(|s| s * (pixels - 1) / (SAMPLED - 1)).collect(),
        };
        chosen.into_par_iter().flat_map_iter(|pixel| self.pixel(pixel)).collect()
    }

    fn pixel(&self, pixel: usize) -> Vec<(f64, f64, f64)> {
        let (Size { p, q, c, f, .. }, Window { r, s }) = (self.size, self.window);
        let (image, line, column) = (pixel / q / p, pixel / q % p, pixel % q);
        let mut sums = vec![(0.0, 0.0); f];
        for (dr, ds) in (0..r).flat_map(|dr| (0..s).map(move |ds| (dr, ds))) {
            let at = (image * (p + r - 1) + line + dr) * (q + s - 1) + column + ds;
            for (channel, x) in self.x[at * c..][..c].iter().enumerate() {
                let x = x.to_f64();
                let weights = &self.w[((dr * s + ds) * c + channel) * f..][..f];
                for ((sum, magnitude), w) in sums.iter_mut().zip(weights) {
                    let product = x * w.to_f64();
                    *sum += product;
                    *magnitude += product.abs();
                }
            }
        }
        let steps = self.gamma() * (self.terms() + 1) as f64 * U;
        let check = |(at, (sum, magnitude)): (usize, (f64, f64))| {
            (self.y[pixel * f + at].to_f64(), sum, steps * magnitude + half_ulp(T::DTYPE, sum))
        };
        sums.into_iter().enumerate().map(check).collect()
    }

    /// What `verified` means.
    pub fn criterion(&self) -> String {
        let (output, gamma) = (T::DTYPE, self.gamma());
        format!("|y − ref| ≤ γ·(R·S·C+1)·u·(|x| ∗ |w|) + ½ ulp({output}), γ = {gamma:.3}, u = 2⁻²⁴")
    }
}
