//! Linear layers with what stands around them.

use crate::{each_type, support::*};
use tilewright::{DType, Float};
use tilewright_kernels::{kernels, linear_add, norm_linear, norm_swiglu};

const EPS: f32 = 1e-3;

/// Few rows and many, whole vectors and others.
const SIZES: [[usize; 3]; 10] = [
    [0, 3, 4],
    [2, 0, 4],
    [3, 5, 0],
    [1, 1, 1],
    [1, 37, 1029],
    [1, 9, 4104],
    [7, 19, 256],
    [16, 3, 264],
    [17, 33, 65],
    [40, 70, 72],
];

struct Data<T> {
    size: [usize; 3],
    x: Vec<T>,
    gain: Vec<T>,
    weights: [Vec<T>; 2],
    y: Vec<T>,
}

impl<T: Float> Data<T> {
    fn new([m, n, k]: [usize; 3]) -> Self {
        let weights = [normal(3, n * k), normal(4, n * k)];
        Data { size: [m, n, k], x: normal(1, m * k), gain: normal(2, k), weights, y: normal(5, m * n) }
    }

    /// Elements of x·wᵀ and what they may be off by, in any order of the sum, where elements of x are off by a share of themselves.
    fn products(&self, x: &[f64], weight: &[T], off: f64) -> Vec<(f64, f64)> {
        let [m, n, k] = self.size;
        let w = wide(weight);
        let one = |(i, j): (usize, usize)| {
            let terms = (0..k).map(|l| x[i * k + l] * w[j * k + l]);
            let (sum, size) = terms.fold((0.0, 0.0), |(s, a), p| (s + p, a + p.abs()));
            (sum, ((k as f64 + 8.0) * U + off) * size)
        };
        (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(one).collect()
    }

    /// Normalised rows, and what their elements may be off by where they are rounded in between.
    fn normed(&self) -> (Vec<f64>, f64) {
        let [m, _, k] = self.size;
        let (x, g) = (wide(&self.x), wide(&self.gain));
        let rows = x.chunks(k.max(1)).flat_map(|row| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / k as f64;
            let scale = 1.0 / (square + f64::from(EPS)).sqrt();
            row.iter().zip(&g).map(move |(x, g)| x * g * scale).collect::<Vec<_>>()
        });
        (rows.collect(), if self.in_steps(m) { half_ulp(T::DTYPE, 1.0) * 2.0 } else { 0.0 })
    }

    fn in_steps(&self, m: usize) -> bool {
        m > if T::DTYPE == DType::F32 { 16 } else { 8 }
    }

    fn linear(&self) -> Vec<(f64, f64)> {
        let (z, off) = self.normed();
        self.products(&z, &self.weights[0], off)
    }

    fn swiglu(&self) -> Vec<(f64, f64)> {
        let (z, off) = self.normed();
        self.both(&z, off)
    }

    /// silu(z·gateᵀ) · (z·upᵀ), where each number of z may be off by a part of itself.
    fn both(&self, z: &[f64], off: f64) -> Vec<(f64, f64)> {
        let [gate, up] = self.weights.each_ref().map(|w| self.products(z, w, off));
        let rounding = |x: f64| if self.in_steps(self.size[0]) { half_ulp(T::DTYPE, x) } else { 0.0 };
        let one = |((a, a_off), (b, b_off)): (&(f64, f64), &(f64, f64))| {
            let s = a / (1.0 + (-a).exp());
            let bound = 1.2 * (a_off + rounding(*a)) * (b.abs() + b_off) + s.abs() * (b_off + rounding(*b));
            (s * b, bound + 18.0 * U * (s * b).abs())
        };
        gate.iter().zip(&up).map(one).collect()
    }

    fn added(&self) -> Vec<(f64, f64)> {
        let products = self.products(&wide(&self.x), &self.weights[0], 0.0);
        let one = |((p, off), y): ((f64, f64), f64)| (p + y, off + 2.0 * U * (p.abs() + y.abs()));
        products.into_iter().zip(wide(&self.y)).map(one).collect()
    }

    fn gated(&self) -> Vec<(f64, f64)> {
        let products = self.products(&wide(&self.x), &self.weights[0], 0.0);
        let one = |((p, off), y): ((f64, f64), f64)| {
            let s = y / (1.0 + (-y).exp());
            (s * p, s.abs() * off + 18.0 * U * (s * p).abs())
        };
        products.into_iter().zip(wide(&self.y)).map(one).collect()
    }
}

fn layers<T: Float>() {
    for size @ [m, n, k] in SIZES {
        let data = Data::<T>::new(size);
        let (x, gain) = (buffer(&data.x, &[m, k]), buffer(&data.gain, &[k]));
        let [w, up] = data.weights.each_ref().map(|w| buffer(w, &[n, k]));
        let mut y = poisoned(&[m, n]);
        norm_linear(&stream(), &x, &gain, EPS, &w, &mut y).unwrap();
        check(&format!("norm_linear of {size:?}"), &y, data.linear());
        let mut y = poisoned(&[m, n]);
        norm_swiglu(&stream(), &x, &gain, EPS, &w, &up, &mut y).unwrap();
        check(&format!("norm_swiglu of {size:?}"), &y, data.swiglu());
        let mut y = buffer(&data.y, &[m, n]);
        linear_add(&stream(), &x, &w, &mut y).unwrap();
        check(&format!("linear_add of {size:?}"), &y, data.added());
    }
}

#[test]
fn layers_of_all_sizes() {
    each_type!(layers);
}

fn schedules<T: Float>() {
    for schedule in kernels::fused::SCHEDULES.iter().filter(|s| s.admits(Some(T::DTYPE))) {
        // Few rows, whose results are rounded once; whole vectors with ragged tiles, then neither. Products have many rows, too.
        let sizes = [[3, 21, 1032], [2, 9, 13], [130, 264, 72]];
        let behind_a_norm = schedule.kernel().starts_with("norm");
        for size @ [m, n, k] in sizes.into_iter().take(if behind_a_norm { 2 } else { 3 }) {
            let data = Data::<T>::new(size);
            let (x, gain) = (buffer(&data.x, &[m, k]), buffer(&data.gain, &[k]));
            let [w, up] = data.weights.each_ref().map(|w| buffer(w, &[n, k]));
            let mut y = buffer(&data.y, &[m, n]);
            let (launch, exact) = match schedule.kernel() {
                "norm_linear" => {
                    let launch = kernels::fused::norm_linear(&x, &gain, &w, &mut y, EPS);
                    (launch.schedule_dyn(*schedule), data.linear())
                }
                "norm_swiglu" => {
                    let launch = kernels::fused::norm_swiglu(&x, &gain, &w, &up, &mut y, EPS);
                    (launch.schedule_dyn(*schedule), data.swiglu())
                }
                "swiglu_products" => {
                    let launch = kernels::fused::swiglu_products(&x, &w, &up, &mut y);
                    (launch.schedule_dyn(*schedule), data.both(&wide(&data.x), 0.0))
                }
                "linear_gated" => {
                    let launch = kernels::fused::linear_gated(&x, &w, &mut y);
                    (launch.schedule_dyn(*schedule), data.gated())
                }
                _ => (kernels::fused::linear_add(&x, &w, &mut y).schedule_dyn(*schedule), data.added()),
            };
            let report = launch.run().unwrap();
            assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
            check(schedule.name(), &y, exact);
        }
    }
}

#[test]
fn layers_under_each_schedule() {
    each_type!(schedules);
}

#[test]
fn rows_of_a_batch() {
    let data = Data::<f32>::new([6, 5, 7]);
    let (x, w) = (buffer(&data.x, &[2, 3, 7]), buffer(&data.weights[0], &[5, 7]));
    let mut y = buffer(&data.y, &[2, 3, 5]);
    linear_add(&stream(), &x, &w, &mut y).unwrap();
    check("linear_add", &y, data.added());
}
