//! The loss and the step.

use crate::{each_type, support::*};
use tilewright::Float;
use tilewright_kernels::{AdamW, adamw, cross_entropy};

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
