//! Linear layers.

use crate::{each_type, support::*};
use tilewright::{AnySchedule, Float};
use tilewright_kernels::{kernels, linear};

/// x·wᵀ + b of some sizes, and what each element may be off by.
pub struct Layer<T> {
    pub size: [usize; 3],
    pub x: Vec<T>,
    pub weight: Vec<T>,
    pub bias: Vec<T>,
}

impl<T: Float> Layer<T> {
    pub fn new([m, n, k]: [usize; 3]) -> Self {
        let (x, weight, bias) = (normal(1, m * k), normal(2, n * k), normal(3, n));
        Layer { size: [m, n, k], x, weight, bias }
    }

    pub fn exact(&self, biased: bool) -> Vec<(f64, f64)> {
        let [m, n, k] = self.size;
        let [x, w, b] = [&self.x, &self.weight, &self.bias].map(|data| wide(data));
        let mut exact = Vec::with_capacity(m * n);
        for i in 0..m {
            for j in 0..n {
                let products = (0..k).map(|l| x[i * k + l] * w[j * k + l]);
                let bias = if biased { b[j] } else { 0.0 };
                let (sum, size) = products.fold((bias, bias.abs()), |(s, a), p| (s + p, a + p.abs()));
                // Any order of the sum.
                exact.push((sum, (k as f64 + 2.0) * U * size));
            }
        }
        exact
    }

    /// Launches a schedule of either kernel.
    pub fn under(&self, schedule: &dyn AnySchedule) {
        let [m, n, k] = self.size;
        let (x, w) = (buffer(&self.x, &[m, k]), buffer(&self.weight, &[n, k]));
        let bias = buffer(&self.bias, &[n]);
        let mut y = poisoned::<T>(&[m, n]);
        let biased = schedule.kernel() == "linear_bias";
        let report = match biased {
            true => kernels::linear::linear_bias(&x, &w, &bias, &mut y).schedule_dyn(schedule).run(),
            false => kernels::linear::linear(&x, &w, &mut y).schedule_dyn(schedule).run(),
        };
        let report = report.unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
        check(schedule.name(), &y, self.exact(biased));
    }
}

fn layers<T: Float>() {
    let sizes =
        [[0, 3, 4], [2, 0, 4], [3, 5, 0], [1, 1, 1], [1, 37, 1029], [7, 19, 256], [17, 33, 65], [65, 70, 72]];
    for size @ [m, n, k] in sizes {
        let layer = Layer::<T>::new(size);
        let (x, w) = (buffer(&layer.x, &[m, k]), buffer(&layer.weight, &[n, k]));
        let bias = buffer(&layer.bias, &[n]);
        for biased in [false, true] {
            let mut y = poisoned(&[m, n]);
            linear(&stream(), &x, &w, biased.then_some(&bias), &mut y).unwrap();
            check(&format!("linear of {size:?}"), &y, layer.exact(biased));
        }
    }
}

#[test]
fn layers_of_all_sizes() {
    each_type!(layers);
}

#[test]
fn rows_of_a_batch() {
    let layer = Layer::<f32>::new([6, 5, 7]);
    let (x, w) = (buffer(&layer.x, &[2, 3, 7]), buffer(&layer.weight, &[5, 7]));
    let mut y = poisoned(&[2, 3, 5]);
    linear(&stream(), &x, &w, None, &mut y).unwrap();
    check("linear", &y, layer.exact(false));
}
