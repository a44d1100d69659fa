//! Tensors that a kernel reads and stores, or stores to in several places.

use crate::{Case, ELEMENTWISE, same, support};
use tile_dsl::engine;

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
