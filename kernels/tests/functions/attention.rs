//! Attention.

use crate::{each_type, support::*};
use tilewright::{AnySchedule, Buffer, DType, Float};
use tilewright_kernels::{attention, kernels};

/// Batch, heads of queries, heads of keys, queries, keys, elements of a head.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    b: usize,
    h: usize,
    g: usize,
    m: usize,
    n: usize,
    d: usize,
}

/// Queries, keys and values.
pub struct Heads<T> {
    size: Size,
    scale: f32,
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
}

impl<T: Float> Heads<T> {
    pub fn new(size @ [b, h, g, m, n, d]: [usize; 6]) -> Self {
        let keys = b * g * n * d;
        let (q, k, v) = (normal(1, b * h * m * d), normal(2, keys), normal(3, keys));
        Self::of(size, 1.0 / (d.max(1) as f32).sqrt(), [q, k, v])
    }

    pub fn of([b, h, g, m, n, d]: [usize; 6], scale: f32, [q, k, v]: [Vec<T>; 3]) -> Self {
        Heads { size: Size { b, h, g, m, n, d }, scale, q, k, v }
    }

    fn on_device(&self) -> [Buffer<T>; 3] {
        let Size { b, h, g, m, n, d } = self.size;
        let [keys, values] = [&self.k, &self.v].map(|data| buffer(data, &[b, g, n, d]));
        [buffer(&self.q, &[b, h, m, d]), keys, values]
    }

    /// Each element and its bound, to first order: the errors of scores, exponentials and sums, and the rounding of weights.
    pub fn exact(&self, causal: bool) -> Vec<(f64, f64)> {
        let Size { b, h, g, m, n, d } = self.size;
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|data| wide(data));
        let scale = f64::from(self.scale);
        let narrow = if T::DTYPE == DType::F32 { 0.0 } else { half_ulp(T::DTYPE, 1.0) };
        // Weights below the least normal number lose more.
        let tiny = half_ulp(T::DTYPE, 0.0);
        let mut exact = Vec::new();
        for row in 0..b * h * m {
            let head = row / m / h * g + row / m % h / (h / g);
            let seen = if causal { (row % m + 1 + n).saturating_sub(m).min(n) } else { n };
            let score = |j: usize| {
                let products = (0..d).map(|e| q[row * d + e] * k[(head * n + j) * d + e]);
                let (s, size) = products.fold((0.0, 0.0), |(s, size), p| (s + p, size + p.abs()));
                (s * scale, (d as f64 + 2.0) * U * size * scale)
            };
            let scores: Vec<(f64, f64)> = (0..seen).map(score).collect();
            let top = scores.iter().fold(f64::NEG_INFINITY, |top, (s, _)| top.max(*s));
            let weight = |(s, off): &(f64, f64)| {
                ((s - top).exp(), 2.0 * off + (8.0 + 4.0 * (s.abs() + top.abs()) + n as f64) * U)
            };
            let weights: Vec<(f64, f64)> = scores.iter().map(weight).collect();
            let l: f64 = weights.iter().map(|(w, _)| w).sum();
            let off_l = weights.iter().map(|(w, off)| w * off).sum::<f64>() / l;
            for e in 0..d {
                let (mut sum, mut off) = (0.0, 0.0);
                for (j, (w, off_w)) in weights.iter().enumerate() {
                    let v = v[(head * n + j) * d + e];
                    sum += w * v;
                    off += (w * (off_w + narrow) + tiny) * v.abs();
                }
                // Without keys there is nothing.
                let of = if seen == 0 {
                    (0.0, 0.0)
                } else {
                    (sum / l, off / l + (sum / l).abs() * (off_l + 4.0 * U))
                };
                exact.push(of);
            }
        }
        exact
    }

    /// Launches a schedule of either kernel.
    pub fn under(&self, schedule: &dyn AnySchedule) {
        let Size { b, h, g, m, d, .. } = self.size;
        let [q, k, v] = self.on_device();
        let shape = [b, g, h / g, m, d];
        let (q, mut o) = (q.reshaped(&shape).unwrap(), poisoned::<T>(&shape));
        let causal = schedule.kernel() == "causal_attention";
        let report = match causal {
            true => kernels::attention::causal_attention(&q, &k, &v, &mut o, self.scale)
                .schedule_dyn(schedule)
                .run(),
            false => {
                kernels::attention::attention(&q, &k, &v, &mut o, self.scale).schedule_dyn(schedule).run()
            }
        };
        let report = report.unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
        check(schedule.name(), &o, self.exact(causal));
    }
}

fn heads<T: Float>() {
    let sizes = [
        [0, 1, 1, 2, 2, 4],
        [1, 2, 1, 3, 0, 8],
        [1, 1, 1, 1, 1, 1],
        [2, 4, 2, 5, 9, 16],
        [1, 2, 2, 19, 7, 5],
        [1, 3, 1, 1, 70, 64],
        [1, 1, 1, 66, 67, 72],
        [2, 6, 2, 1, 555, 40],
        [1, 17, 1, 1, 800, 128],
    ];
    for size @ [b, h, _, m, _, d] in sizes {
        let case = Heads::<T>::new(size);
        let [q, k, v] = case.on_device();
        for causal in [false, true] {
            let mut o = poisoned(&[b, h, m, d]);
            attention(&stream(), &q, &k, &v, case.scale, causal, &mut o).unwrap();
            check(&format!("attention of {size:?}, causal {causal}"), &o, case.exact(causal));
        }
    }
}

#[test]
fn heads_of_all_sizes() {
    each_type!(heads);
}

#[test]
fn first_places_of_a_cache() {
    let (places, n) = (12, 7);
    let case = Heads::<f32>::new([2, 2, 1, 4, n, 8]);
    let [q, ..] = case.on_device();
    let cache = |data: &[f32]| {
        let padded: Vec<f32> =
            data.chunks(n * 8).flat_map(|head| [head, &[f32::NAN; 40][..]].concat()).collect();
        buffer(&padded, &[2, 1, places, 8])
    };
    let (keys, values) = (cache(&case.k), cache(&case.v));
    let first = [0..2, 0..1, 0..n, 0..8];
    let (k, v) = (keys.slice(&first).unwrap(), values.slice(&first).unwrap());
    let mut o = poisoned(&[2, 2, 4, 8]);
    attention(&stream(), &q, &k, &v, case.scale, true, &mut o).unwrap();
    check("attention", &o, case.exact(true));
}
