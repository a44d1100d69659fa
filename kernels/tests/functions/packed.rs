//! Layers of weights that have four bits, and of blocks with a scale each.

use crate::{each_type, support::*};
use tilewright::{DType, Float, Variant, prelude::f8};
use tilewright_kernels::kernels::{packed, scaled};

/// Weights of a group in one word.
const EACH: usize = 8;
/// Points with one scale.
const GROUP: usize = 128;

fn four_bits<T: Float>() {
    for [m, n, groups] in
        [[0, 3, 1], [2, 3, 0], [1, 1, 1], [1, 9, 3], [5, 24, 2], [17, 130, 1], [40, 8, 1], [130, 67, 2]]
    {
        let k = groups * GROUP;
        let number = |n: usize| (n * 40_503 + n / 5 * 17) as u32 % 16;
        let q: Vec<u32> = (0..n * k).map(number).collect();
        let zero: Vec<u8> = (0..n * groups).map(|n| (n * 7 % 19 + n % 2 * 100) as u8).collect();
        let (x, scale) = (normal::<T>(1, m * k), normal::<T>(2, n * groups));
        // Whether weights are rounded, or a scale multiplies the sum of its group.
        let exact = |rounded: bool| {
            let (x, scale, q, zero) = (wide(&x), wide(&scale), q.clone(), zero.clone());
            (0..m * n).map(move |at| {
                let (i, j) = (at / n, at % n);
                let (mut sum, mut size) = (0.0, 0.0);
                for l in 0..k {
                    let g = j * groups + l / GROUP;
                    let w = (f64::from(q[j * k + l]) - f64::from(zero[g])) * scale[g];
                    let w = if rounded { T::from_f64(w).to_f64() } else { w };
                    sum += x[i * k + l] * w;
                    size += (x[i * k + l] * w).abs();
                }
                (sum, 2.0 * k as f64 * U * size)
            })
        };
        // Weight 16e + w of a group is in bits 4e of word w, or weight 8w + e.
        let words = |place: &dyn Fn(usize, usize) -> usize| -> Vec<u32> {
            let word = |at: usize| {
                let (group, w) = (at / 16, at % 16);
                (0..EACH).fold(0, |word, e| word | q[group * GROUP + place(e, w)] << (4 * e))
            };
            (0..n * groups * 16).map(word).collect()
        };
        let [apart, beside] = [words(&|e, w| 16 * e + w), words(&|e, w| 8 * w + e)]
            .map(|words| buffer(&words, &[n, 16 * groups]));
        let (x, scale, zero) =
            (buffer(&x, &[m, k]), buffer(&scale, &[n, groups]), buffer(&zero, &[n, groups]));
        let bytes: Vec<u8> = q.iter().map(|q| *q as u8).collect();
        assert_eq!(tilewright_kernels::pack_i4(&bytes), apart.to_vec().unwrap());
        let mut y = poisoned::<T>(&[m, n]);
        tilewright_kernels::linear_i4(&stream(), &x, &apart, &scale, &zero, &mut y).unwrap();
        // A weight is rounded where there are many rows of 16-bit elements.
        check("linear_i4", &y, exact(m > 32 && T::DTYPE.bytes() == 2));
        for schedule in packed::SCHEDULES.iter().filter(|s| s.admits(Some(T::DTYPE))) {
            let mut y = poisoned::<T>(&[m, n]);
            let grouped = schedule.kernel() == "linear_i4_groups";
            let report = match schedule.kernel() {
                "linear_i4_groups" => {
                    packed::linear_i4_groups(&x, &apart, &scale, &zero, &mut y).schedule_dyn(*schedule).run()
                }
                "linear_i4" => {
                    packed::linear_i4(&x, &apart, &scale, &zero, &mut y).schedule_dyn(*schedule).run()
                }
                _ => packed::linear_i4_in_order(&x, &beside, &scale, &zero, &mut y)
                    .schedule_dyn(*schedule)
                    .run(),
            };
            let report = report.unwrap();
            assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
            check(schedule.name(), &y, exact(!grouped));
        }
    }
}

#[test]
fn layers_of_four_bits() {
    each_type!(four_bits);
}

/// Weights become elements of 16 bits two at once, and no conversion is left.
#[test]
fn weights_are_computed_by_twos() {
    for schedule in packed::SCHEDULES.iter().filter(|s| s.kernel() != "linear_i4_in_order") {
        for dtype in [DType::F16, DType::BF16].into_iter().filter(|_| !schedule.name().starts_with("plain")) {
            let text = tilewright::ptx(*schedule, Some(dtype), Variant::Aligned).unwrap().text;
            assert!(text.contains("lop3.b32"), "{} in {dtype}", schedule.name());
            let converted = format!("cvt.rn.{dtype}.u");
            assert!(!text.contains(&converted), "{} in {dtype}", schedule.name());
        }
    }
}

fn blocks<T: Float>() {
    for [m, n, groups] in [[0, 128, 1], [2, 128, 0], [1, 128, 1], [3, 256, 2], [130, 384, 3]] {
        let k = groups * GROUP;
        let (x, w) = (normal::<f8>(1, m * k), normal::<f8>(2, n * k));
        let (xs, ws) = (normal::<f32>(3, m * groups), normal::<f32>(4, n.div_ceil(GROUP) * groups));
        let exact = || {
            let (x, w, xs, ws) = (wide(&x), wide(&w), wide(&xs), wide(&ws));
            (0..m * n).map(move |at| {
                let (i, j) = (at / n, at % n);
                let (mut sum, mut size) = (0.0, 0.0);
                for l in 0..k {
                    let g = l / GROUP;
                    let v = x[i * k + l] * w[j * k + l] * xs[g * m + i] * ws[j / GROUP * groups + g];
                    (sum, size) = (sum + v, size + v.abs());
                }
                // Tensor cores add numbers of eight bits up with fewer bits than f32 has.
                (sum, size * 2f64.powi(-12))
            })
        };
        let (x, w) = (buffer(&x, &[m, k]), buffer(&w, &[n, k]));
        let (xs, ws) = (buffer(&xs, &[groups, m]), buffer(&ws, &[n.div_ceil(GROUP), groups]));
        let mut y = poisoned::<T>(&[m, n]);
        tilewright_kernels::linear_f8(&stream(), &x, &xs, &w, &ws, &mut y).unwrap();
        check("linear_f8", &y, exact());
        for schedule in scaled::SCHEDULES.iter().filter(|s| s.admits(Some(T::DTYPE))) {
            let mut y = poisoned::<T>(&[m, n]);
            let report = scaled::linear_f8(&x, &xs, &w, &ws, &mut y).schedule_dyn(*schedule).run().unwrap();
            assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
            check(schedule.name(), &y, exact());
        }
    }
}

#[test]
fn layers_with_a_scale_for_each_block() {
    each_type!(blocks);
}
