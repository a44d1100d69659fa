//! The loss and the step.

use crate::{each_type, support::*};
use tilewright::Float;
use tilewright_kernels::{AdamW, adamw, cross_entropy, dropout, kernels};

fn losses<T: Float>() {
    for [s, v] in [[0, 3], [3, 0], [1, 1], [5, 7], [3, 1000], [2, 16500]] {
        let x = normal::<T>(1, s * v);
        // One row counts for nothing, and one has no such element.
        let label: Vec<i32> = (0..s).map(|n| [(3 * n % v.max(1)) as i32, -100, v as i32][n % 3]).collect();
        let mut loss = poisoned::<f32>(&[s]);
        cross_entropy(&stream(), &buffer(&x, &[s, v]), &buffer(&label, &[s]), -100, &mut loss).unwrap();
        let x = wide(&x);
        let exact = label.iter().enumerate().map(|(n, label)| {
            let row = &x[n * v..][..v];
            let Some(hit) = usize::try_from(*label).ok() else { return (0.0, 0.0) };
            let Some(hit) = row.get(hit) else { return (f64::INFINITY, 0.0) };
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum = row.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
            let size = top.abs() + sum.abs() + hit.abs() + 1.0;
            (top + sum - hit, (v as f64).sqrt().mul_add(4.0, 32.0) * U * size)
        });
        check("cross_entropy", &loss, exact);
    }
}

#[test]
fn losses_of_rows() {
    each_type!(losses);
}

fn steps<T: Float>() {
    let by = AdamW { lr: 0.1, weight_decay: 0.05, ..AdamW::default() };
    let f = f64::from;
    for (shape, step) in [(&[0][..], 1), (&[1], 1), (&[3, 5], 2), (&[1030], 7)] {
        let len = shape.iter().product();
        let (g, p) = (normal::<T>(1, len), normal::<f32>(2, len));
        let (m, v) = (normal::<f32>(3, len), normal::<f32>(4, len).iter().map(|x| x * x).collect::<Vec<_>>());
        let [mut pb, mut mb, mut vb] = [&p, &m, &v].map(|data| buffer(data, shape));
        adamw(&stream(), by, step, &buffer(&g, shape), &mut pb, &mut mb, &mut vb).unwrap();
        let correct = |beta: f32| 1.0 / (1.0 - f(beta).powf(step.into()));
        let (mut ps, mut ms, mut vs) = (vec![], vec![], vec![]);
        for n in 0..len {
            let (g, p) = (g[n].to_f64(), f(p[n]));
            let (old, new) = (f(by.beta1) * f(m[n]), (1.0 - f(by.beta1)) * g);
            let m1 = (old + new, 4.0 * U * (old.abs() + new.abs()));
            let v1 = f(by.beta2) * f(v[n]) + (1.0 - f(by.beta2)) * g * g;
            let (m_hat, root) = (m1.0 * correct(by.beta1), (v1 * correct(by.beta2)).sqrt() + f(by.eps));
            let decay = f(by.weight_decay) * p;
            let off =
                m1.1 * correct(by.beta1) / root + 16.0 * U * (m_hat / root).abs() + 4.0 * U * decay.abs();
            let moved = p - f(by.lr) * (m_hat / root + decay);
            ps.push((moved, f(by.lr) * off + 2.0 * U * (p.abs() + moved.abs())));
            ms.push(m1);
            vs.push((v1, 4.0 * U * v1));
        }
        check("parameters", &pb, ps);
        check("mean", &mb, ms);
        check("square", &vb, vs);
    }
}

#[test]
fn steps_of_parameters() {
    each_type!(steps);
}

/// Philox4x32-10 of the key (seed, 0) and the counter (i, 0, 0, 0), written as the paper has it.
fn philox(seed: u32, i: u32) -> [u32; 4] {
    let (mut key, mut x) = ([seed, 0], [i, 0, 0, 0]);
    for _ in 0..10 {
        let (a, b) = (0xd251_1f53 * u64::from(x[0]), 0xcd9e_8d57 * u64::from(x[2]));
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    x
}

fn dropped<T: Float>() {
    assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    for (shape, p, seed) in [
        (&[0][..], 0.5, 1),
        (&[1], 0.25, -3),
        (&[3, 5], 0.0, 7),
        (&[2, 1030], 0.1, i32::MAX),
        (&[4096], 1.0, 0),
    ] {
        let len = shape.iter().product();
        let x = normal::<T>(1, len);
        let mut y = poisoned(shape);
        dropout(&stream(), p, seed, &buffer(&x, shape), &mut y).unwrap();
        let exact: Vec<(f64, f64)> = (0..len)
            .map(|n| {
                let word = philox(seed as u32, n as u32 / 4)[n % 4];
                let kept = (word >> 8) as f32 / 16_777_216.0 >= p;
                let v = x[n].to_f64() / (1.0 - f64::from(p));
                if kept { (v, 4.0 * U * v.abs()) } else { (0.0, 0.0) }
            })
            .collect();
        let zeros = exact.iter().filter(|(v, _)| *v == 0.0).count() as f64;
        assert!(len < 1000 || (zeros / len as f64 - f64::from(p)).abs() < 0.05, "{zeros} of {len}");
        check("dropout", &y, exact);
    }
}

#[test]
fn elements_are_dropped() {
    each_type!(dropped);
    let (x, mut y) = (buffer(&[1.0f32], &[1]), poisoned::<f32>(&[1]));
    let error = dropout(&stream(), 1.5, 0, &x, &mut y).unwrap_err().to_string();
    assert!(error.contains("p is 1.5"), "{error}");
}

/// Products of integers are exact, so the scales alone round.
fn quantized<T: Float>() {
    for [m, n, k] in
        [[0, 3, 4], [3, 5, 0], [1, 1, 1], [1, 9, 2100], [7, 19, 530], [17, 33, 65], [65, 70, 144]]
    {
        let number = |n: usize| (n * 40_503 + n / 5 * 17) as i8;
        let x: Vec<i8> = (0..m * k).map(number).collect();
        let w: Vec<i8> = (0..n * k).map(|n| if n % 7 == 0 { i8::MIN } else { number(3 * n + 1) }).collect();
        // So that sums stay within `f16`.
        let [xs, ws] = [normal::<f32>(1, m), normal::<f32>(2, n)]
            .map(|s| s.iter().map(|x| x / 64.0).collect::<Vec<f32>>());
        let sum = |i: usize, j: usize| {
            (0..k).map(|l| i32::from(x[i * k + l]) * i32::from(w[j * k + l])).sum::<i32>()
        };
        let exact = || {
            (0..m * n).map(|at| {
                let (i, j) = (at / n, at % n);
                let v = f64::from(sum(i, j)) * f64::from(xs[i]) * f64::from(ws[j]);
                (v, 4.0 * U * v.abs())
            })
        };
        let (x, w) = (buffer(&x, &[m, k]), buffer(&w, &[n, k]));
        let (xs, ws) = (buffer(&xs, &[m]), buffer(&ws, &[n]));
        let mut y = poisoned::<T>(&[m, n]);
        tilewright_kernels::linear_i8(&stream(), &x, &xs, &w, &ws, &mut y).unwrap();
        check("linear_i8", &y, exact());
        for schedule in kernels::quantized::SCHEDULES {
            let mut y = poisoned::<T>(&[m, n]);
            let launch = kernels::quantized::linear_i8(&x, &xs, &w, &ws, &mut y);
            let report = launch.schedule_dyn(*schedule).run().unwrap();
            assert!(report.findings.is_empty(), "{}: {:?}", schedule.name(), report.findings);
            check(schedule.name(), &y, exact());
        }
    }
}

#[test]
fn layers_of_eight_bits() {
    each_type!(quantized);
}
