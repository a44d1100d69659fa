//! Points that meet.

use crate::{each_type, support::*};
use tilewright::Float;
use tilewright_kernels::{embedding_gradient, histogram};

#[test]
fn numbers_that_occur() {
    for [n, b] in
        [[0, 3], [1, 1], [7, 0], [33, 5], [1030, 300], [2049, 2], [4097, 1025], [70_001, 8192], [300, 9000]]
    {
        // Some are no place, before the first and behind the last.
        let x: Vec<i32> = (0..n as i64).map(|i| (i * i % (b as i64 + 2) - 1) as i32).collect();
        let mut exact: Vec<i32> = (0..b as i32).collect();
        let mut h = buffer(&exact, &[b]);
        histogram(&stream(), &buffer(&x, &[n]), &mut h).unwrap();
        for at in x.iter().filter_map(|x| usize::try_from(*x).ok()).filter(|x| *x < b) {
            exact[at] += 1;
        }
        assert_eq!(h.to_vec().unwrap(), exact, "{n} numbers of {b}");
    }
}

fn gradients<T: Float>() {
    for [s, v, d] in [[0, 3, 4], [1, 1, 1], [5, 4, 0], [40, 7, 33], [9, 3, 1032]] {
        let (dy, before) = (normal::<T>(1, s * d), normal::<f32>(2, v * d));
        let ids: Vec<i32> = (0..s as i32).map(|n| n * 7 % (v as i32 + 2) - 1).collect();
        let mut table = buffer(&before, &[v, d]);
        embedding_gradient(&stream(), &buffer(&ids, &[s]), &buffer(&dy, &[s, d]), &mut table).unwrap();
        let mut exact: Vec<(f64, f64, f64)> =
            before.iter().map(|x| (f64::from(*x), f64::from(*x).abs(), 0.0)).collect();
        for (n, dy) in wide(&dy).into_iter().enumerate() {
            let Some(id) = usize::try_from(ids[n / d]).ok().filter(|id| *id < v) else { continue };
            let (sum, size, count) = &mut exact[id * d + n % d];
            (*sum, *size, *count) = (*sum + dy, *size + dy.abs(), *count + 1.0);
        }
        let bounds = exact.into_iter().map(|(sum, size, count)| (sum, count * U * size));
        check("embedding_gradient", &table, bounds);
    }
}

#[test]
fn rows_that_meet() {
    each_type!(gradients);
}
