//! Sums so far, and what follows from them.

use crate::{each_type, support::*};
use tilewright::{AnySchedule, Float};
use tilewright_kernels::kernels::scan;

const SIZES: [[usize; 2]; 9] =
    [[3, 0], [0, 7], [1, 1], [5, 17], [33, 16], [2, 1023], [3, 1024], [2, 2500], [1, 20001]];

fn sums<T: Float>() {
    for schedule in [&scan::serial as &dyn AnySchedule, &scan::rows, &scan::long] {
        for [r, n] in SIZES {
            let x = normal::<T>(3, r * n);
            let (input, mut y) = (buffer(&x, &[r, n]), poisoned::<T>(&[r, n]));
            scan::cumsum(&input, &mut y).schedule_dyn(schedule).run().unwrap();
            let mut exact = Vec::new();
            for row in wide(&x).chunks(n.max(1)).take(r) {
                let (mut sum, mut size) = (0.0, 0.0);
                for (at, x) in row.iter().enumerate() {
                    (sum, size) = (sum + x, size + x.abs());
                    exact.push((sum, 2.0 * (at + 1) as f64 * U * size));
                }
            }
            check("cumsum", &y, exact.iter().copied());
            let mut y = poisoned::<T>(&[r, n]);
            tilewright_kernels::cumsum(&stream(), &input, &mut y).unwrap();
            check("cumsum", &y, exact);
        }
    }
}

#[test]
fn sums_so_far() {
    each_type!(sums);
}

fn kept<T: Float>() {
    for schedule in [&scan::compact_serial as &dyn AnySchedule, &scan::compact_rows, &scan::compact_long] {
        for [r, n] in SIZES {
            let x = normal::<T>(4, r * n);
            let (input, mut y) = (buffer(&x, &[r, n]), buffer(&vec![T::from_f64(7.0); r * n], &[r, n]));
            let mut count = poisoned::<i32>(&[r]);
            scan::compact(&input, 0.25, &mut y, &mut count).schedule_dyn(schedule).run().unwrap();
            let (mut rows, mut counts) = (Vec::new(), Vec::new());
            for row in x.chunks(n.max(1)).take(if n == 0 { 0 } else { r }) {
                let kept: Vec<T> = row.iter().copied().filter(|x| x.to_f64() > 0.25).collect();
                counts.push(kept.len() as i32);
                rows.extend(kept.iter().map(|x| x.to_f64()));
                rows.extend(std::iter::repeat_n(7.0, n - kept.len()));
            }
            counts.resize(r, 0);
            assert_eq!(count.to_vec().unwrap(), counts, "{r}×{n}");
            assert_eq!(wide(&y.to_vec().unwrap()), rows, "{r}×{n}");
            let (mut y, mut count) = (buffer(&vec![T::from_f64(7.0); r * n], &[r, n]), poisoned::<i32>(&[r]));
            tilewright_kernels::compact(&stream(), &input, 0.25, &mut y, &mut count).unwrap();
            assert_eq!((count.to_vec().unwrap(), wide(&y.to_vec().unwrap())), (counts, rows), "{r}×{n}");
        }
    }
}

#[test]
fn elements_that_stay() {
    each_type!(kept);
}

#[test]
fn groups_begin_where_others_end() {
    for e in [0usize, 1, 2, 31, 64, 257, 1024, 1500] {
        let lengths: Vec<i32> = (0..e as i32).map(|n| n * 7 % 5).collect();
        let (mut first, mut end) = (poisoned::<i32>(&[1, e]), poisoned::<i32>(&[1, e]));
        scan::starts(&buffer(&lengths, &[1, e]), &mut first, &mut end)
            .schedule_dyn(&scan::groups)
            .run()
            .unwrap();
        let ends: Vec<i32> = lengths
            .iter()
            .scan(0, |sum, length| {
                *sum += length;
                Some(*sum)
            })
            .collect();
        let firsts: Vec<i32> = ends.iter().zip(&lengths).map(|(end, length)| end - length).collect();
        assert_eq!(end.to_vec().unwrap(), ends);
        assert_eq!(first.to_vec().unwrap(), firsts);
    }
}
