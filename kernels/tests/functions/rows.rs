//! Functions of rows.

use crate::{each_type, support::*};
use tilewright::Float;
use tilewright_kernels::{argmax, layer_norm, rms_norm, softmax, top_k};

/// Rows and their length: one a warp, a CTA, too long for registers; whole vectors and others.
const SIZES: [[usize; 2]; 9] =
    [[0, 4], [3, 0], [1, 1], [2, 2], [5, 33], [6, 1024], [2, 1025], [1, 1500], [1, 8196]];

/// Relative error of the sum of n positive terms, and of what is done with it.
fn sum(n: usize) -> f64 {
    (n as f64).sqrt().mul_add(4.0, 16.0) * U
}

fn norms<T: Float>() {
    let eps = 1e-3f32;
    for [rows, n] in SIZES {
        let (x, weight, bias) = (normal::<T>(1, rows * n), normal::<T>(2, n), normal::<T>(3, n));
        let [values, w, b] = [wide(&x), wide(&weight), wide(&bias)];
        let (input, factors) = (buffer(&x, &[rows, n]), buffer(&weight, &[n]));
        let mut y = poisoned(&[rows, n]);
        rms_norm(&stream(), &input, &factors, eps, &mut y).unwrap();
        let exact = values.chunks(n.max(1)).flat_map(|row| {
            let square = row.iter().map(|x| x * x).sum::<f64>() / n as f64;
            let scale = 1.0 / (square + f64::from(eps)).sqrt();
            let of = |(x, w): (&f64, &f64)| (x * scale * w, sum(n) * (x * scale * w).abs());
            row.iter().zip(&w).map(of).collect::<Vec<_>>()
        });
        check("rms_norm", &y, exact);
        let mut y = poisoned(&[rows, n]);
        layer_norm(&stream(), &input, &factors, &buffer(&bias, &[n]), eps, &mut y).unwrap();
        let exact = values.chunks(n.max(1)).flat_map(|row| {
            let mean = row.iter().sum::<f64>() / n as f64;
            let size = row.iter().map(|x| x.abs()).sum::<f64>() / n as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
            let scale = 1.0 / (variance + f64::from(eps)).sqrt();
            let of = |((x, w), b): ((&f64, &f64), &f64)| {
                let z = (x - mean) * scale * w;
                (z + b, sum(n) * ((w * scale).abs() * size + z.abs()) + U * (z + b).abs())
            };
            row.iter().zip(&w).zip(&b).map(of).collect::<Vec<_>>()
        });
        check("layer_norm", &y, exact);
    }
}

#[test]
fn norms_of_rows() {
    each_type!(norms);
}

fn softmaxes<T: Float>() {
    for [rows, n] in SIZES {
        let x = normal::<T>(1, rows * n);
        let values = wide(&x);
        // Two dimensions count rows.
        let shape: &[usize] = if rows % 2 == 0 { &[2, rows / 2, n] } else { &[rows, n] };
        let mut y = poisoned(shape);
        softmax(&stream(), &buffer(&x, shape), &mut y).unwrap();
        let exact = values.chunks(n.max(1)).flat_map(|row| {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|x| (x - top).exp()).sum();
            let of = |x: &f64| {
                let y = (x - top).exp() / total;
                (y, y * sum(n) * (1.0 + (x - top).abs()))
            };
            row.iter().map(of).collect::<Vec<_>>()
        });
        check("softmax", &y, exact);
    }
}

#[test]
fn softmax_of_rows() {
    each_type!(softmaxes);
}

fn places<T: Float>() {
    // Long rows are in parts.
    for [rows, n] in SIZES.into_iter().chain([[1, 8192], [3, 12_289], [2, 20_001]]) {
        let mut x = normal::<T>(1, rows * n);
        // Two greatest elements: the first counts.
        for row in x.chunks_mut(n.max(1)).filter(|_| n > 2) {
            (row[n / 2], row[n - 1]) = (T::from_f64(8.0), T::from_f64(8.0));
        }
        let mut y = poisoned::<i32>(&[rows]);
        argmax(&stream(), &buffer(&x, &[rows, n]), &mut y).unwrap();
        let first = |row: &[f64]| {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter().position(|x| *x == top).map_or(i32::MAX, |at| at as i32)
        };
        let x = wide(&x);
        let exact: Vec<i32> = (0..rows).map(|r| first(&x[r * n..][..n])).collect();
        assert_eq!(y.to_vec().unwrap(), exact, "{rows} rows of {n}");
    }
}

#[test]
fn greatest_elements() {
    each_type!(places);
    let place = |x: &[f32]| {
        let mut y = poisoned::<i32>(&[1]);
        argmax(&stream(), &buffer(x, &[1, x.len()]), &mut y).unwrap();
        y.to_vec().unwrap()[0]
    };
    assert_eq!(place(&[1.0, f32::NAN, f32::INFINITY, f32::NAN]), 1);
    // The same in parts, and a row of the least numbers.
    let mut x = vec![f32::NEG_INFINITY; 10_000];
    assert_eq!(place(&x), 0);
    (x[4097], x[5000], x[8200]) = (f32::INFINITY, f32::NAN, f32::NAN);
    assert_eq!(place(&x), 5000);
}

fn greatest<T: Float>() {
    for [s, n, c] in [[0, 3, 2], [1, 1, 1], [3, 4, 0], [5, 8, 8], [9, 33, 2], [2, 256, 7], [3, 70, 70]] {
        // Many are equal: of those the first comes first.
        let x: Vec<T> = (0..s * n).map(|i| T::from_f64((i * 37 % 23) as f64 / 4.0 - 2.0)).collect();
        let (mut value, mut place) = (poisoned::<T>(&[s, c]), poisoned::<i32>(&[s, c]));
        top_k(&stream(), &buffer(&x, &[s, n]), &mut value, &mut place).unwrap();
        let sorted = x.chunks(n).flat_map(|row| {
            let mut places: Vec<usize> = (0..n).collect();
            places.sort_by(|a, b| row[*b].to_f64().total_cmp(&row[*a].to_f64()));
            places.truncate(c);
            places.into_iter().map(|at| (row[at], at as i32)).collect::<Vec<_>>()
        });
        let (values, places): (Vec<T>, Vec<i32>) = sorted.unzip();
        assert_eq!(value.to_vec().unwrap(), values, "{c} of rows of {n}");
        assert_eq!(place.to_vec().unwrap(), places, "{c} of rows of {n}");
    }
}

#[test]
fn the_greatest_in_order() {
    each_type!(greatest);
}
