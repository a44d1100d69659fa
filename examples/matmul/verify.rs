//! Is C = A·B, up to the rounding of the accumulation?
//!
//! Accepted is |c − ref| ≤ γ·(K+1)·u·(|A|·|B|)ᵢⱼ + ½ ulp of the output type, with u = 2⁻²⁴ the unit roundoff of the
//! f32 accumulation, or 2⁻¹² of products of 8-bit factors, which tensor cores add with fewer bits. γ = 1 is the worst case of any order of summation; for long sums γ = 4/√(K+1), since rounding errors of
//! random data grow with the square root (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019): one missing product shows.

use rayon::prelude::*;
use tilewright::{
    DType, Float,
    verify::{Comparison, U, half_ulp},
};

/// What follows the sum: column and exact sum to the exact result, and the magnitude that it adds. Errors of the sum must not grow in it.
pub type Epilogue<'a> = &'a (dyn Fn(usize, f64) -> (f64, f64) + Sync);

/// Row-major operands, of elements `A`, and result of C[m,n] = epilogue(A[m,k]·B[k,n]).
pub struct Product<'a, A, T> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: &'a [A],
    pub b: &'a [A],
    pub c: &'a [T],
    /// What is multiplied of an element.
    pub factor: fn(&A) -> f64,
    /// What each product may be off by, of itself.
    pub each: f64,
    /// Nothing for a bare product.
    pub epilogue: Option<Epilogue<'a>>,
}

/// Above this many products the check samples instead of computing all of C.
const FULL_CHECK: usize = 1024 * 1024 * 1024;

impl<'a, A: Float, T: Float> Product<'a, A, T> {
    /// C = A·B, of the elements as they are.
    pub fn new([m, n, k]: [usize; 3], a: &'a [A], b: &'a [A], c: &'a [T]) -> Self {
        Product { m, n, k, a, b, c, factor: |x| x.to_f64(), each: 0.0, epilogue: None }
    }

    fn gamma(&self) -> f64 {
        (4.0 / ((self.k + 1) as f64).sqrt()).min(1.0)
    }

    /// That of the accumulation, and how it is written.
    fn roundoff(&self) -> (f64, &'static str) {
        if A::DTYPE == DType::F8 { (2f64.powi(-12), "2⁻¹²") } else { (U, "2⁻²⁴") }
    }

    /// The criterion, in words.
    pub fn criterion(&self) -> String {
        let (output, gamma, (_, u)) = (T::DTYPE, self.gamma(), self.roundoff());
        format!("|c − ref| ≤ γ·(K+1)·u·(|A|·|B|) + ½ ulp({output}), γ = {gamma:.3}, u = {u}")
    }

    /// What the accumulation may be off by.
    fn accumulation(&self, magnitude: f64) -> f64 {
        (self.gamma() * (self.k + 1) as f64 * self.roundoff().0 + self.each) * magnitude
    }

    fn half_ulp(reference: f64) -> f64 {
        half_ulp(T::DTYPE, reference)
    }

    /// Compares the elements at the crossings of `rows` and `columns` with the reference.
    fn check(&self, rows: &[usize], columns: &[usize]) -> Comparison {
        // The columns side by side, so that the inner loop below walks memory in order.
        let packed: Vec<f64> = (0..self.k)
            .into_par_iter()
            .flat_map_iter(|l| columns.iter().map(move |&j| (self.factor)(&self.b[l * self.n + j])))
            .collect();
        let row = |&i: &usize| {
            let mut sums = vec![(0.0, 0.0); columns.len()];
            for l in 0..self.k {
                let a = (self.factor)(&self.a[i * self.k + l]);
                for ((sum, magnitude), b) in sums.iter_mut().zip(&packed[l * columns.len()..]) {
                    let product = a * b;
                    *sum += product;
                    *magnitude += product.abs();
                }
            }
            let mut verdict = Comparison::EMPTY;
            for (&(sum, magnitude), &j) in sums.iter().zip(columns) {
                let (reference, more) = self.epilogue.map_or((sum, 0.0), |f| f(j, sum));
                let bound = self.accumulation(magnitude + more) + Self::half_ulp(reference);
                let at = i * self.n + j;
                verdict.element(at, self.c[at].to_f64(), reference, bound);
            }
            verdict
        };
        rows.par_iter().map(row).reduce(|| Comparison::EMPTY, Comparison::merge)
    }

    /// Freivalds' check: C·x against A·(B·x) in f64 for a sign vector x, row by row, each against the root mean square
    /// of the elements' bounds (their errors are independent) times six.
    fn freivalds(&self, seed: u64) -> Comparison {
        let sign = |j: usize| -> f64 {
            let mut z = (j as u64).wrapping_add(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            if (z ^ (z >> 31)) & 1 == 0 { 1.0 } else { -1.0 }
        };
        let x: Vec<f64> = (0..self.n).map(sign).collect();
        // B·x and, for the bound, the squared length of each row of B.
        let bx: Vec<(f64, f64)> = self
            .b
            .par_chunks(self.n)
            .map(|row| {
                row.iter()
                    .zip(&x)
                    .map(|(b, x)| ((self.factor)(b), x))
                    .fold((0.0, 0.0), |(s, q), (b, x)| (s + b * x, q + b * b))
            })
            .collect();
        (0..self.m)
            .into_par_iter()
            .map(|i| {
                let row = &self.a[i * self.k..][..self.k];
                let (reference, square) = row
                    .iter()
                    .zip(&bx)
                    .map(|(a, b)| ((self.factor)(a), b))
                    .fold((0.0, 0.0), |(s, q), (a, (bx, bb))| (s + a * bx, q + a * a * bb));
                let c = &self.c[i * self.n..][..self.n];
                let (got, rounding) = c.iter().zip(&x).fold((0.0, 0.0), |(s, r), (c, x)| {
                    (s + c.to_f64() * x, r + Self::half_ulp(c.to_f64()).powi(2))
                });
                // (|A||B|)ij ≤ √K·(ΣAil²Blj²)^½, so this is the same bound summed in quadrature over j.
                let accumulation = self.accumulation((self.k as f64 * square).sqrt());
                let bound = 6.0 * (accumulation.powi(2) + rounding).sqrt();
                let mut verdict = Comparison::EMPTY;
                verdict.element(i * self.n, got, reference, bound.max(f64::MIN_POSITIVE));
                // A row's sum has no relative error that would mean anything for an element.
                Comparison { max_rel_error: 0.0, ..verdict }
            })
            .reduce(|| Comparison::EMPTY, Comparison::merge)
    }

    /// Checks all of C up to 1024³ products; above, 64 full rows and 64 full columns (the last of each among them, so every
    /// edge tile is touched), the crossing of the last 128 of each, and three
    /// Freivalds vectors over all of a bare product.
    pub fn verify(&self) -> Comparison {
        let (m, n) = (self.m, self.n);
        let (rows, columns): (Vec<usize>, Vec<usize>) = ((0..m).collect(), (0..n).collect());
        if m.saturating_mul(n).saturating_mul(self.k) <= FULL_CHECK {
            return self.check(&rows, &columns);
        }
        // A sample spread over the length, and its last 128 entries' crossing: every kind of edge tile.
        let spread = |len: usize| (0..64).map(|s| s * (len - 1) / 63).collect::<Vec<_>>();
        let tail = |len: usize| len.saturating_sub(128);
        let sampled = self.check(&spread(m), &columns).merge(self.check(&rows, &spread(n)));
        let edges = self.check(&rows[tail(m)..], &columns[tail(n)..]);
        let vectors = if self.epilogue.is_none() { 3 } else { 0 };
        (1..=vectors).fold(sampled.merge(edges), |verdict, seed| verdict.merge(self.freivalds(seed)))
    }
}
