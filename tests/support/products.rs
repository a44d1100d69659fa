//! Products of small matrices under one schedule, on one device: factors, launches that find nothing wrong, each element.
#![allow(dead_code, reason = "each test uses its part")]

use std::sync::OnceLock;
use tilewright::{AnySchedule, DType, Element, Error, LaunchReport, Variant, prelude::*};

/// PTX of a schedule for an element type, without guards.
pub fn ptx(schedule: &dyn AnySchedule, dtype: DType) -> String {
    tilewright::ptx(schedule, Some(dtype), Variant::Exact).expect("it compiles").text
}

/// How often a text has another.
pub fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

/// Small whole numbers: their sums are exact with 13 bits.
pub fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 7 + n / 11 * 3 + seed * 5) % 7) as f32 - 3.0).collect()
}

/// The simulator, and a GPU where there is one that runs wgmma.
pub fn devices(seed: u64) -> Vec<Device> {
    let gpu = Device::cuda(0).ok().filter(|d| d.gpu().is_ok_and(|gpu| gpu.is_some_and(|gpu| gpu.sm == 90)));
    [Device::sim_with_seed(seed)].into_iter().chain(gpu).collect()
}

/// Simulators with different orders of warps, and with copies that complete late and early.
pub fn simulators(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (u64, Device)> {
    seeds.flat_map(|seed| [Device::sim_with_seed(seed), Device::sim_early(seed)].map(|device| (seed, device)))
}

/// The factors of a product of M×N elements over K, row by row.
pub struct Factors {
    size: [usize; 3],
    a: Vec<f32>,
    b: Vec<f32>,
    sums: OnceLock<Vec<f32>>,
}

impl Factors {
    /// Numbers by their count and a seed.
    pub fn new([m, n, k]: [usize; 3], numbers: impl Fn(usize, usize) -> Vec<f32>) -> Self {
        Factors { size: [m, n, k], a: numbers(m * k, 1), b: numbers(k * n, 2), sums: OnceLock::new() }
    }

    /// In another type, on a device.
    pub fn buffers<T: Element>(
        &self,
        device: &Device,
        of: impl Fn(f32) -> T,
        layout: Layout,
    ) -> (Buffer<T>, Buffer<T>) {
        let ([m, n, k], b) = (self.size, &self.b);
        let a: Vec<T> = self.a.iter().copied().map(&of).collect();
        let b: Vec<T> = match layout {
            Layout::RowMajor => b.iter().copied().map(of).collect(),
            Layout::ColumnMajor => (0..n * k).map(|at| of(b[at % k * n + at / k])).collect(),
        };
        let a = Buffer::from_slice(device, &a, &[m, k]).expect("room");
        (a, Buffer::from_slice_in(device, &b, &[k, n], layout).expect("room"))
    }

    /// What is summed for an element, in ascending order.
    pub fn pairs(&self, i: usize, j: usize) -> impl Iterator<Item = (f32, f32)> {
        let [_, n, k] = self.size;
        (0..k).map(move |l| (self.a[i * k + l], self.b[l * n + j]))
    }

    /// The sum itself, where it is exact: a library adds in an order of its own.
    pub fn sum(&self, i: usize, j: usize) -> f32 {
        let [m, n, k] = self.size;
        let sums = self.sums.get_or_init(|| {
            let mut sums = vec![0.0; m * n];
            let strides = |width: usize| (width as isize, 1);
            let ((a, b, c), one) = ((strides(k), strides(n), strides(n)), 1.0);
            // SAFETY: the three have M×K, K×N and M×N elements, row by row.
            unsafe {
                matrixmultiply::sgemm(
                    m,
                    k,
                    n,
                    one,
                    self.a.as_ptr(),
                    a.0,
                    a.1,
                    self.b.as_ptr(),
                    b.0,
                    b.1,
                    0.0,
                    sums.as_mut_ptr(),
                    c.0,
                    c.1,
                );
            }
            sums
        });
        sums[i * n + j]
    }

    /// Runs a launch on a poisoned result; it finds nothing wrong, and each element is right.
    pub fn check<T: Element>(
        &self,
        device: &Device,
        what: &str,
        run: impl FnOnce(&mut Buffer<T>) -> Result<LaunchReport, Error>,
        right: impl Fn(usize, usize, T) -> Result<(), String>,
    ) {
        let [m, n, k] = self.size;
        let mut c = Buffer::<T>::poisoned(device, &[m, n]).expect("room");
        let report = run(&mut c).expect("it runs");
        assert!(report.findings.is_empty(), "{what}, {m}×{n}×{k}: {}", report.findings[0]);
        for (at, found) in c.to_vec().expect("read back").into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            right(i, j, found).unwrap_or_else(|why| panic!("{what}, C[{i}, {j}] of {m}×{n}×{k}: {why}"));
        }
    }
}

/// Nothing but this number.
pub fn is<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found:?}, not {wanted:?}")) }
}
