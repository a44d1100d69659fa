//! The mixture on the host: which experts, which blocks, and the result in f64.

use rayon::prelude::*;
use tilewright::{Error, Float, verify};

/// Rows of the result that are verified, at most.
const VERIFIED: usize = 192;

/// Sizes of a mixture.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub tokens: usize,
    pub experts: usize,
    pub top: usize,
    pub length: usize,
    pub columns: usize,
}

impl Sizes {
    pub fn slots(self) -> usize {
        self.tokens.saturating_mul(self.top)
    }
}

/// Logits, tokens and matrices, and what follows from the logits.
pub struct Mixture<'a, T> {
    sizes: Sizes,
    x: &'a [T],
    w: &'a [T],
    /// Experts of each token, and their gates.
    slots: Vec<(usize, f64)>,
}

impl<'a, T: Float> Mixture<'a, T> {
    /// The experts with the greatest logits, of equal ones the first, and the softmax of those.
    pub fn of(sizes: Sizes, logits: &[T], x: &'a [T], w: &'a [T]) -> Self {
        let slots = logits.chunks(sizes.experts.max(1)).flat_map(|row| {
            let row: Vec<f64> = row.iter().map(|x| x.to_f64()).collect();
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
            order.truncate(sizes.top);
            let powers: Vec<f64> = order.iter().map(|expert| (row[*expert] - row[order[0]]).exp()).collect();
            let total: f64 = powers.iter().sum();
            order
                .into_iter()
                .zip(powers)
                .map(move |(expert, power)| (expert, power / total))
                .collect::<Vec<_>>()
        });
        Mixture { sizes, x, w, slots: slots.collect() }
    }

    /// Whether experts are these, and gates near these.
    pub fn is_routed(&self, experts: &[i32], gates: &[f32]) -> bool {
        let near = |(gate, exact): (&f32, f64)| (f64::from(*gate) - exact).abs() <= 64.0 * verify::U;
        self.slots.iter().map(|(expert, _)| *expert as i32).eq(experts.iter().copied())
            && gates.len() == self.slots.len()
            && gates.iter().zip(self.slots.iter().map(|(_, gate)| *gate)).all(near)
    }

    /// Whether blocks of so many rows have the slots of each expert in their order, and nothing else.
    pub fn is_sorted(
        &self,
        rows: usize,
        [token, expert, place]: [Result<Vec<i32>, Error>; 3],
    ) -> Result<bool, Error> {
        let (found, top) = ([token?, expert?, place?], self.sizes.top);
        let mut exact = [&found[0], &found[1], &found[2]].map(|of| vec![-1; of.len()]);
        let mut next = 0;
        for own in 0..self.sizes.experts {
            let slots: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].0 == own).collect();
            for (n, slot) in slots.iter().enumerate() {
                let at = next * rows + n;
                (exact[0][at], exact[1][at / rows], exact[2][*slot]) =
                    ((slot / top) as i32, own as i32, at as i32);
            }
            next += slots.len().div_ceil(rows);
        }
        Ok(found == exact)
    }

    /// Rows all over the result, the first and the last among them: sums, and those of magnitudes.
    pub fn rows(&self) -> Vec<(usize, Vec<[f64; 2]>)> {
        let Sizes { tokens, top, length: k, columns: n, .. } = self.sizes;
        let all: Vec<usize> =
            (0..tokens).step_by(tokens.div_ceil(VERIFIED).max(1)).chain(tokens.checked_sub(1)).collect();
        let row = |token: &usize| {
            let mut sums = vec![[0.0; 2]; n];
            for (expert, gate) in &self.slots[token * top..][..top] {
                let own = &self.w[expert * k * n..][..k * n];
                for (x, w) in self.x[token * k..][..k].iter().zip(own.chunks(n.max(1))) {
                    let x = x.to_f64() * gate;
                    for (sum, w) in sums.iter_mut().zip(w) {
                        let product = x * w.to_f64();
                        *sum = [sum[0] + product, sum[1] + product.abs()];
                    }
                }
            }
            (*token, sums)
        };
        all.par_iter().map(row).collect()
    }

    /// Results of a token beside sums and what they may be off by: rounding errors of random data grow with the square root of their
    /// number, and gates have a few of their own.
    pub fn checks<'c>(
        &self,
        found: &'c [T],
        token: usize,
        exact: &'c [[f64; 2]],
    ) -> impl Iterator<Item = (f64, f64, f64)> + use<'c, T> {
        let Sizes { top, length, columns, .. } = self.sizes;
        let rounding = (4.0 * ((length + top + 1) as f64).sqrt() + 64.0) * verify::U;
        let row = &found[token * columns..][..columns];
        row.iter().zip(exact).map(move |(y, [sum, size])| {
            let last = verify::half_ulp(T::DTYPE, *sum) * (1.0 + 1e-3) + 2f64.powi(-126);
            (y.to_f64(), *sum, rounding * size + last)
        })
    }
}
