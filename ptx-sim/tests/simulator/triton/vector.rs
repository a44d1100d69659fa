//! Element-wise kernels, reductions, scans, random numbers, data movement and atomics.

use super::harness::{Arg, Element, assert_close, f32s, i32s, out_f32, random, run};

pub const NAMES: &[&str] = &[
    "add",
    "add_bf16",
    "argmax",
    "atomics",
    "dropout",
    "gelu",
    "histogram",
    "layernorm",
    "reduce",
    "scan",
    "softmax",
    "sort",
    "transpose",
];

fn f32_values(seed: u64, n: usize) -> Vec<f64> {
    Element::F32.rounded(&random(seed, n))
}

fn zeros(n: usize) -> Arg {
    f32s(&vec![0.0; n])
}

fn add_of(name: &str, e: Element, grid: u32) {
    let n = 1003;
    let (x, y) = (e.rounded(&random(1, n)), e.rounded(&random(2, n)));
    let sum: Vec<f64> = x.iter().zip(&y).map(|(a, b)| a + b).collect();
    let args = [
        Arg::Buffer(e.bytes(&x)),
        Arg::Buffer(e.bytes(&y)),
        Arg::Buffer(e.bytes(&vec![0.0; n])),
        Arg::I32(n as i32),
    ];
    run(name, [grid, 1, 1], &args, |what, out| {
        assert_close(what, &e.values(&out[2]), &e.rounded(&sum), 0.0, 0.0);
    });
}

#[test]
fn add() {
    add_of("add", Element::F32, 4);
}

#[test]
fn add_bf16() {
    add_of("add_bf16", Element::BF16, 1);
}

#[test]
fn gelu() {
    let n = 700;
    let x = f32_values(3, n);
    // erf(z) = 2/√π · Σ (-1)ⁱ z²ⁱ⁺¹ / (i! (2i+1)), exact enough for |z| < 1.
    let erf = |z: f64| {
        let (mut term, mut sum) = (z, z);
        for i in 1..40 {
            term *= -z * z / i as f64;
            sum += term / (2 * i + 1) as f64;
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    };
    let want: Vec<f64> =
        x.iter().map(|v| 0.5 * v * (1.0 + erf(v * std::f64::consts::FRAC_1_SQRT_2))).collect();
    run("gelu", [3, 1, 1], &[f32s(&x), zeros(n), Arg::I32(n as i32)], |what, out| {
        assert_close(what, &out_f32(&out[1]), &want, 1e-6, 1e-7);
    });
}

#[test]
fn softmax() {
    let (rows, cols) = (13, 400);
    let x = f32_values(4, rows * cols);
    let want: Vec<f64> = x
        .chunks(cols)
        .flat_map(|r| {
            let total: f64 = r.iter().map(|v| v.exp()).sum();
            r.iter().map(move |v| v.exp() / total)
        })
        .collect();
    let args = [f32s(&x), zeros(rows * cols), Arg::I32(rows as i32), Arg::I32(cols as i32)];
    run("softmax", [5, 1, 1], &args, |what, out| assert_close(what, &out_f32(&out[1]), &want, 2e-6, 0.0));
}

#[test]
fn layernorm() {
    let (rows, cols, eps) = (6, 592, 1e-5f32);
    let (x, w, b) = (f32_values(5, rows * cols), f32_values(6, cols), f32_values(7, cols));
    let (mut want, mut means, mut rstds) = (vec![], vec![], vec![]);
    for r in x.chunks(cols) {
        let mean = r.iter().sum::<f64>() / cols as f64;
        let var = r.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / cols as f64;
        let rstd = 1.0 / (var + eps as f64).sqrt();
        want.extend((0..cols).map(|j| (r[j] - mean) * rstd * w[j] + b[j]));
        means.push(mean);
        rstds.push(rstd);
    }
    let args = [
        f32s(&x),
        f32s(&w),
        f32s(&b),
        zeros(rows * cols),
        zeros(rows),
        zeros(rows),
        Arg::I32(cols as i32),
        Arg::F32(eps),
    ];
    run("layernorm", [rows as u32, 1, 1], &args, |what, out| {
        assert_close(what, &out_f32(&out[3]), &want, 1e-5, 1e-6);
        assert_close(what, &out_f32(&out[4]), &means, 1e-5, 1e-7);
        assert_close(what, &out_f32(&out[5]), &rstds, 1e-5, 0.0);
    });
}

#[test]
fn reduce() {
    let (rows, cols) = (50, 100);
    let x = f32_values(8, rows * cols);
    let sums: Vec<f64> = x.chunks(cols).map(|r| r.iter().sum()).collect();
    let top = |block: usize, j: usize| {
        (32 * block..rows.min(32 * block + 32)).map(|i| x[i * cols + j]).fold(f64::NEG_INFINITY, f64::max)
    };
    let args = [f32s(&x), zeros(rows), zeros(256), Arg::I32(rows as i32), Arg::I32(cols as i32)];
    run("reduce", [2, 1, 1], &args, |what, out| {
        assert_close(what, &out_f32(&out[1]), &sums, 1e-6, 1e-5);
        let maxima = out_f32(&out[2]);
        for block in 0..2 {
            let want: Vec<f64> = (0..cols).map(|j| top(block, j)).collect();
            assert_close(what, &maxima[128 * block..][..cols], &want, 0.0, 0.0);
        }
    });
}

#[test]
fn argmax() {
    let (rows, cols) = (5, 300);
    let mut x = f32_values(9, rows * cols);
    // A tie: the first wins.
    (x[17], x[211]) = (2.0, 2.0);
    let at: Vec<f64> = x
        .chunks(cols)
        .map(|r| (0..cols).rev().max_by(|a, b| r[*a].total_cmp(&r[*b])).unwrap() as f64)
        .collect();
    let best: Vec<f64> = at.iter().enumerate().map(|(i, j)| x[i * cols + *j as usize]).collect();
    assert_eq!(at[0], 17.0);
    let args = [f32s(&x), zeros(rows), zeros(rows), Arg::I32(rows as i32), Arg::I32(cols as i32)];
    run("argmax", [rows as u32, 1, 1], &args, |what, out| {
        assert_close(what, &out_f32(&out[1]), &best, 0.0, 0.0);
        assert_close(what, &Element::I32.values(&out[2]), &at, 0.0, 0.0);
    });
}

#[test]
fn scan() {
    let (rows, n) = (3, 500);
    let (x, decay) = (f32_values(10, rows * n), f32_values(11, rows * n));
    let (mut sums, mut states) = (vec![], vec![]);
    for i in 0..rows * n {
        let (sum, state) = if i % n == 0 { (0.0, 0.0) } else { (sums[i - 1], states[i - 1]) };
        sums.push(sum + x[i]);
        states.push(state * decay[i] + x[i]);
    }
    let args = [f32s(&x), zeros(rows * n), f32s(&decay), zeros(rows * n), Arg::I32(n as i32)];
    run("scan", [rows as u32, 1, 1], &args, |what, out| {
        assert_close(what, &out_f32(&out[1]), &sums, 1e-6, 1e-5);
        assert_close(what, &out_f32(&out[3]), &states, 1e-6, 1e-6);
    });
}

#[test]
fn sort() {
    let (rows, n) = (3, 200);
    let x = f32_values(12, rows * n);
    let mut want = x.clone();
    want.chunks_mut(n).for_each(|r| r.sort_by(f64::total_cmp));
    run("sort", [rows as u32, 1, 1], &[f32s(&x), zeros(rows * n), Arg::I32(n as i32)], |what, out| {
        assert_close(what, &out_f32(&out[1]), &want, 0.0, 0.0);
    });
}

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), first word.
fn philox(key: u64, counter: u32) -> u32 {
    let mul = |a: u32, b: u32| (((a as u64 * b as u64) >> 32) as u32, a.wrapping_mul(b));
    let [mut k0, mut k1] = [key as u32, (key >> 32) as u32];
    let mut c = [counter, 0, 0, 0];
    for _ in 0..10 {
        let (h0, l0) = mul(0xD251_1F53, c[0]);
        let (h1, l1) = mul(0xCD9E_8D57, c[2]);
        c = [h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    c[0]
}

#[test]
fn dropout() {
    // Known answer of the paper's reference implementation for key 0 and counter 0.
    assert_eq!(philox(0, 0), 0x6627_e8d5);
    let (n, p, seed) = (1000, 0.4f32, 12345);
    let x = f32_values(13, n);
    let want: Vec<f64> = (0..n)
        .map(|i| {
            let bits = philox(seed, i as u32) as i32;
            let uniform = (if bits < 0 { -bits - 1 } else { bits }) as f32 * 4.656_612_7e-10;
            if uniform > p { x[i] / (1.0 - p as f64) } else { 0.0 }
        })
        .collect();
    let kept = want.iter().filter(|v| **v != 0.0).count();
    assert!((500..700).contains(&kept), "{kept}");
    let args = [f32s(&x), zeros(n), Arg::I32(n as i32), Arg::F32(p), Arg::I32(seed as i32)];
    run("dropout", [4, 1, 1], &args, |what, out| assert_close(what, &out_f32(&out[1]), &want, 1e-6, 0.0));
}

#[test]
fn transpose() {
    let (rows, cols) = (50, 70);
    let x = f32_values(14, rows * cols);
    let want: Vec<f64> = (0..rows * cols).map(|i| x[i % rows * cols + i / rows]).collect();
    let args = [f32s(&x), zeros(rows * cols), Arg::I32(rows as i32), Arg::I32(cols as i32)];
    run("transpose", [2, 2, 1], &args, |what, out| assert_close(what, &out_f32(&out[1]), &want, 0.0, 0.0));
}

#[test]
fn histogram() {
    let n = 900;
    let x: Vec<i32> = random(15, n).iter().map(|v| (v * v * 32.0) as i32).collect();
    let mut want = vec![0.0; 32];
    x.iter().for_each(|v| want[*v as usize] += 1.0);
    run("histogram", [2, 1, 1], &[i32s(&x), i32s(&[0; 32]), Arg::I32(n as i32)], |what, out| {
        assert_close(what, &Element::I32.values(&out[1]), &want, 0.0, 0.0);
    });
}

#[test]
fn atomics() {
    let (n, slots) = (700, 128);
    let x: Vec<i32> = random(16, n).iter().map(|v| (v * 1000.0) as i32).collect();
    let (mut adds, mut maxima, mut ors) = ([0; 128], [i32::MIN; 128], [0; 128]);
    for (i, v) in x.iter().enumerate() {
        adds[i % slots] += v;
        maxima[i % slots] = maxima[i % slots].max(*v);
        ors[i % slots] |= v;
    }
    let args = [
        i32s(&x),
        i32s(&[0; 128]),
        i32s(&[i32::MIN; 128]),
        i32s(&[0; 128]),
        i32s(&[0]),
        i32s(&[0; 128]),
        Arg::I32(n as i32),
    ];
    run("atomics", [3, 1, 1], &args, |what, out| {
        let words = |i: usize| Element::I32.values(&out[i]);
        let same = |i: usize, want: &[i32]| {
            assert_close(what, &words(i), &want.iter().map(|v| *v as f64).collect::<Vec<_>>(), 0.0, 0.0);
        };
        same(1, &adds);
        same(2, &maxima);
        same(3, &ors);
        same(4, &[0]);
        same(5, &[x.iter().sum(); 128]);
    });
}
