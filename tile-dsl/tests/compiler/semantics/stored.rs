//! Tensors that a kernel reads and stores, or stores to in several places.

use super::{Case, ELEMENTWISE, same, support};
use tile_dsl::{engine, lower::lower, program::Variant};

#[test]
fn a_value_stays_what_it_was_after_a_store() {
    let doubled = "\
kernel t(x: &mut [f32; N], y: &mut [f32; N]) {
    axis i in program_tile(N);
    let v = load(x, [i]);
    store(x, [i], v * 2.0);
    store(y, [i], v);
}";
    let swap = "\
kernel t(x: &mut [f32; N], y: &mut [f32; N]) {
    axis i in program_tile(N);
    let a = load(x, [i]);
    let b = load(y, [i]);
    store(x, [i], b);
    store(y, [i], a);
}";
    for n in [0, 1, 7, 8, 9, 33] {
        let x: Vec<f64> = (0..n).map(f64::from).collect();
        let y: Vec<f64> = x.iter().map(|x| -x - 1.0).collect();
        let case = |kernel| Case { kernel, dtype: None, dims: &[("N", 0)], tensors: &[], scalars: &[] };
        let (dims, tensors) = ([("N", n.into())], [("x", x.clone()), ("y", y.clone())]);
        let found = Case { dims: &dims, tensors: &tensors, ..case(doubled) }.agree(&ELEMENTWISE);
        same(&found["x"], &x.iter().map(|x| 2.0 * x).collect::<Vec<_>>(), "x");
        same(&found["y"], &x, "y");
        let found = Case { dims: &dims, tensors: &tensors, ..case(swap) }.agree(&ELEMENTWISE);
        same(&found["x"], &y, "x");
        same(&found["y"], &x, "y");
    }
}

/// A row that is normalised after it was stored: replicas, other distributions of its readers, shared memory.
#[test]
fn rows_stay_what_they_were() {
    let kernel = "\
kernel t(x: &[f32; R, N], h: &mut [f32; R, N], y: &mut [f32; R, N], s: &mut [f32; R]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let v = load(x, [r, n]) + load(h, [r, n]);
    store(h, [r, n], v);
    let t = sum(v * v, n);
    store(y, [r, n], v * t);
    store(s, [r], t);
}";
    let schedules = [
        "fits(N <= 64); tile(r = 2); bind(r -> thread.x); unroll(n)",
        "fits(N <= 64); tile(r = 2); split(n -> no, nl: 32); bind(r -> warp.x, nl -> lane.x); reduce(t: lane); unroll(no)",
        "fits(N <= 64); tile(r = 1); split(n -> no, nt: 16); bind(nt -> thread.x); reduce(t: cta); unroll(no)",
        "fits(N <= 64); tile(r = 2); stage(v: shared); bind(r -> thread.x)",
    ];
    for (r, n) in [(1, 1), (3, 5), (2, 32), (3, 33), (2, 64), (3, 0), (0, 3)] {
        let x = (0..r * n).map(|x| (x % 5) as f64 - 2.0).collect();
        let h = (0..r * n).map(|x| (x % 3) as f64).collect();
        let case = Case {
            kernel,
            dtype: None,
            dims: &[("R", r), ("N", n)],
            tensors: &[("x", x), ("h", h)],
            scalars: &[],
        };
        case.agree(&schedules);
    }
    // Computing it anew would read what was stored.
    let kernel = support::kernel(kernel);
    let refused = engine::schedule(&kernel, &support::schedule("tile(r = 1); recompute(v)"), None);
    let text = format!("{:?}", refused.unwrap_err());
    assert!(text.contains("`v` reads `h`, which changes before the last use of `v`"), "{text}");
}

#[test]
fn stores_that_never_meet_are_legal() {
    let interleaved = "\
kernel t(x: &[f32; N], y: &mut [f32; 2*N]) {
    axis i in program_tile(N);
    let v = load(x, [i]);
    store(y, [2*i], v);
    store(y, [2*i + 1], -v);
}";
    let in_place = "\
kernel t(x: &[f32; N], y: &mut [f32; 2*N]) {
    axis i in program_tile(N);
    let a = load(y, [2*i]);
    let b = load(y, [2*i + 1]);
    let c = load(x, [i]);
    store(y, [2*i], a * c - b);
    store(y, [2*i + 1], b * c + a);
}";
    let rows = "\
kernel t(x: &[f32; N], y: &mut [f32; 2, N]) {
    axis i in program_tile(N);
    let v = load(x, [i]);
    store(y, [0, i], v);
    store(y, [1, i], v * v);
}";
    for n in [0, 1, 7, 8, 9, 33] {
        let x: Vec<f64> = (0..n).map(|x| x as f64 - 3.0).collect();
        let y: Vec<f64> = (0..2 * n).map(|x| (x % 7) as f64).collect();
        for kernel in [interleaved, in_place, rows] {
            let case = Case {
                kernel,
                dtype: None,
                dims: &[("N", n)],
                tensors: &[("x", x.clone()), ("y", y.clone())],
                scalars: &[],
            };
            let vectors = if kernel == rows { 2 } else { 1 };
            let found = case.agree(&ELEMENTWISE[..vectors]);
            let odd = |i: usize| found["y"][if kernel == rows { n as usize + i } else { 2 * i + 1 }];
            for i in 0..n as usize {
                let wanted = match kernel {
                    k if k == interleaved => -x[i],
                    k if k == rows => x[i] * x[i],
                    _ => y[2 * i + 1] * x[i] + y[2 * i],
                };
                assert_eq!(odd(i), wanted, "{kernel} {i}");
            }
        }
    }
}

/// Two planes of a tensor that four lanes exchange, one statement each, and two halves of its rows.
#[test]
fn lanes_exchange_for_each_store() {
    let planes = "\
kernel t(a: &[f16; M, K], b: &[f16; K, N], c: &mut [f16; 2, M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [0, i, j], acc.cast::<f16>());
    store(c, [1, i, j], max(acc, 0.0_f32).cast::<f16>());
}";
    // The first tile reaches beyond its half, where the second one begins.
    let halves = "\
kernel t(a: &[f16; M, K], b: &[f16; K, 24], c: &mut [f16; M, 48]) {
    axis i in program_tile(M);
    axis j in program_tile(24);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<f16>());
    store(c, [i, j + 24], (-acc).cast::<f16>());
}";
    for (kernel, schedule) in [
        (
            planes,
            "tile(i = 32, j = 64, k = 16); stage(a, b at k: shared); tensor_core(acc: mma); vectorize(j.pair); exchange(c)",
        ),
        (
            planes,
            "tile(i = 32, j = 64, k = 16); stage(a, b at k: shared); tensor_core(acc: mma; swapped); exchange(c)",
        ),
        (
            halves,
            "tile(i = 16, j = 32, k = 16); stage(a, b at k: shared); tensor_core(acc: mma); vectorize(j.pair); exchange(c)",
        ),
        (
            halves,
            "tile(i = 16, j = 32, k = 16); stage(a, b at k: shared); tensor_core(acc: mma; swapped); exchange(c)",
        ),
    ] {
        for (m, n, k) in [(32, 64, 16), (40, 72, 24), (1, 8, 3), (33, 24, 0)] {
            let n = if kernel == halves { 24 } else { n };
            let whole = |count: i64, of: i64| (0..count).map(|x| (x % of - of / 2) as f64).collect();
            let dims = [("M", m), ("N", n), ("K", k)];
            let dims = if kernel == halves { vec![dims[0], dims[2]] } else { dims.to_vec() };
            let case = Case {
                kernel,
                dtype: None,
                dims: &dims,
                tensors: &[
                    ("a", whole(m * k, 5)),
                    ("b", whole(k * n, 7)),
                    ("c", vec![9.0; (2 * m * n) as usize]),
                ],
                scalars: &[],
            };
            case.agree(&[schedule]);
            let program = engine::schedule(&support::kernel(kernel), &support::schedule(schedule), None);
            let lowered = lower(&program.expect("it is legal"), Variant::Aligned).expect("it is lowered");
            assert!(lowered.to_string().contains("exchange"), "{schedule}: {lowered}");
        }
    }
}
