//! Functions of matrices by columns.

use crate::{each_type, support::*};
use tilewright::Float;
use tilewright_kernels::{column_sum, kernels, transpose};

/// Rows and columns: none, ragged tiles, whole vectors and others.
const SIZES: [[usize; 2]; 7] = [[0, 3], [3, 0], [1, 1], [5, 130], [65, 64], [200, 33], [2100, 264]];

fn transposes<T: Float>() {
    for [m, n] in SIZES {
        let x = normal::<T>(1, m * n);
        let mut y = poisoned(&[n, m]);
        transpose(&stream(), &buffer(&x, &[m, n]), &mut y).unwrap();
        let found = y.to_vec().unwrap();
        let turned: Vec<T> = (0..m * n).map(|at| x[at % m * n + at / m]).collect();
        assert!(found == turned, "{m}×{n} in {}", T::DTYPE);
    }
}

#[test]
fn transposes_of_all_sizes() {
    each_type!(transposes);
}

/// For each column its sum, and what adding up in any order may be off by.
fn sums(x: &[f64], [m, n]: [usize; 2]) -> Vec<(f64, f64)> {
    let column = |j: usize| (0..m).map(move |i| x[i * n + j]);
    (0..n).map(|j| (column(j).sum(), m as f64 * U * column(j).map(f64::abs).sum::<f64>())).collect()
}

fn column_sums<T: Float>() {
    for size @ [m, n] in SIZES {
        let x = normal::<T>(1, m * n);
        let (input, exact) = (buffer(&x, &size), sums(&wide(&x), size));
        let mut y = poisoned::<f32>(&[n]);
        column_sum(&stream(), &input, &mut y).unwrap();
        check("column_sum", &y, exact.clone());
        for schedule in kernels::columns::SCHEDULES.iter().filter(|s| s.kernel() == "column_sum") {
            if schedule.admits(Some(T::DTYPE)) {
                let mut y = poisoned::<f32>(&[n]);
                let launch = kernels::columns::column_sum(&input, &mut y).schedule_dyn(*schedule);
                assert!(launch.run().unwrap().findings.is_empty(), "{}", schedule.name());
                check(schedule.name(), &y, exact.clone());
            }
        }
    }
}

#[test]
fn sums_of_all_sizes() {
    each_type!(column_sums);
}
