//! NaN, neutral elements, and where sums and products round.

use super::{Case, ELEMENTWISE, FLOATS, same};
use tile_dsl::{dtype::DType, tile::evaluate::Elements};

#[test]
fn maximum_and_minimum_propagate_nan() {
    let nan = f64::NAN;
    let a = [nan, 1.0, nan, -1.0, 0.0, -0.0, f64::INFINITY, nan];
    let b = [0.0, nan, nan, 2.0, -0.0, 0.0, nan, f64::NEG_INFINITY];
    let kernel = "\
kernel t<T>(a: &[T; N], b: &[T; N], y: &mut [T; N], z: &mut [T; N]) {
    axis i in program_tile(N);
    store(y, [i], max(load(a, [i]), load(b, [i])));
    store(z, [i], min(load(a, [i]), load(b, [i])));
}";
    for dtype in FLOATS {
        let case = Case {
            kernel,
            dtype: Some(dtype),
            dims: &[("N", 8)],
            tensors: &[("a", a.to_vec()), ("b", b.to_vec())],
            scalars: &[],
        };
        let found = case.agree(&ELEMENTWISE);
        same(&found["y"], &[nan, nan, nan, 2.0, 0.0, 0.0, nan, nan], "max");
        same(&found["z"], &[nan, nan, nan, -1.0, -0.0, -0.0, nan, nan], "min");
    }
}

#[test]
fn tf32_rounds_to_nearest_and_ties_away_from_zero() {
    let half = 2f64.powi(-11);
    let less = 2f64.powi(-23);
    let given =
        [1.0 + half, -1.0 - half, 1.0 + half - less, 1.0 + 3.0 * half, 2.0 - less, -0.0, 3e38, f64::NAN];
    let expected = [1.0 + 2.0 * half, -1.0 - 2.0 * half, 1.0, 1.0 + 4.0 * half, 2.0, -0.0, 3e38, f64::NAN];
    let kernel = "\
kernel t<T>(a: &[T; N], y: &mut [T; N]) {
    axis i in program_tile(N);
    store(y, [i], tf32(load(a, [i])));
}";
    let tensors = [("a", given.to_vec())];
    let case =
        |dtype| Case { kernel, dtype: Some(dtype), dims: &[("N", 8)], tensors: &tensors, scalars: &[] };
    let found = case(DType::F32).agree(&ELEMENTWISE);
    same(&found["y"][..6], &expected[..6], "tf32");
    assert!(found["y"][7].is_nan() && (found["y"][6] - 3e38).abs() <= 3e38 * half);
    // Every 16-bit number is one of tf32.
    for dtype in [DType::F16, DType::BF16] {
        let found = case(dtype).agree(&ELEMENTWISE);
        same(&found["y"], &Elements::from_f64(dtype, given).to_f64(), "as it was");
    }
}

/// Times a matrix of one entry a row: each sum is one product, exact whatever adds it up.
#[test]
fn products_of_tf32_are_rounded_alike_on_all_units() {
    let (m, k) = (17i64, 11i64);
    let a: Vec<f64> = (0..m * k)
        .map(|n| {
            f64::from(
                f32::from_bits(0x3f80_0000 + (n as u32) * 0x0003_6c3b) * if n % 3 == 0 { -1.0 } else { 1.0 },
            )
        })
        .collect();
    let b: Vec<f64> = (0..k * k).map(|n| if n % k == n / k { 1.0 + 2f64.powi(-11) } else { 0.0 }).collect();
    let kernel = "\
kernel t(a: &[f32; M, K], b: &[f32; K, N], c: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc, tf32);
    }
    store(c, [i, j], acc);
}";
    let case = Case {
        kernel,
        dtype: None,
        dims: &[("M", m), ("N", k), ("K", k)],
        tensors: &[("a", a.clone()), ("b", b)],
        scalars: &[],
    };
    let mma = "tile(i = 16, j = 16, k = 16); tensor_core(acc: mma); pad(a: 16); pad(b: 32)";
    let found = case.agree(&[
        "tile(i = 8, j = 8); bind(i -> thread.x); bind(j -> thread.y)",
        "tile(i = 8, j = 8, k = 4); stage(a, b at k: shared); bind(i -> thread.x); bind(j -> thread.y)",
        &format!("{mma}; stage(a, b at k: shared)"),
        &format!("{mma}; stage(a, b at k: shared, transposed)"),
        &format!("{mma}; stage(a, b at k: shared, cp_async, vector(16)); fragment(a, b at k.atom); pipeline(k.atom, 2)"),
    ]);
    let rounded = |x: f64| f64::from(tile_dsl::op::tf32(x as f32));
    let wanted: Vec<f64> =
        a.iter().map(|a| f64::from((rounded(*a) * rounded(1.0 + 2f64.powi(-11))) as f32)).collect();
    same(&found["c"], &wanted, "a product");
}

const EXTREMES: &str = "\
kernel t<T>(x: &[T; R, N], y: &mut [T; R], z: &mut [T; R]) {
    axis r in program_tile(R);
    axis n in whole(N);
    store(y, [r], max(load(x, [r, n]), n));
    store(z, [r], min(load(x, [r, n]), n));
}";

/// In one thread, by shuffles, through shared memory, and by CTAs that leave their part in global memory.
const ROWS: [&str; 6] = [
    "tile(r = 2); bind(r -> thread.x)",
    "tile(r = 2); split(n -> no, nl: 32); bind(r -> warp.x, nl -> lane.x); reduce(y.max, z.min: lane)",
    "tile(r = 2); split(n -> no, nl: 8); bind(r -> thread.y, nl -> thread.x); reduce(y.max, z.min: cta)",
    "tile(r = 1); split(n -> no, nt: 64); bind(nt -> thread.x); reduce(y.max, z.min: cta)",
    "tile(r = 1, n = 4); bind(n.t -> thread.x); reduce(y.max, z.min: cta); unroll(n.o)",
    "tile(r = 2); split(n -> no, nv: 4); bind(r -> thread.x); vectorize(nv)",
];

#[test]
fn reductions_propagate_nan_and_keep_their_neutral_element() {
    for dtype in FLOATS {
        for n in [0, 1, 5, 63, 64, 65] {
            // A row with one NaN, one of NaN only, one without; and one of +∞.
            let mut x = vec![1.5; 4 * n];
            for (at, x) in x.iter_mut().enumerate() {
                let (row, at) = (at / n, at % n);
                *x = match row {
                    0 if at == n / 2 => f64::NAN,
                    1 => f64::NAN,
                    3 => f64::INFINITY,
                    _ => -(at as f64),
                };
            }
            let case = Case {
                kernel: EXTREMES,
                dtype: Some(dtype),
                dims: &[("R", 4), ("N", n as i64)],
                tensors: &[("x", x)],
                scalars: &[],
            };
            let rows: Vec<&str> = ROWS.iter().filter(|s| n == 4 || !s.contains("unroll")).copied().collect();
            let found = case.agree(&rows);
            let (inf, last) = (f64::INFINITY, 1.0 - n as f64);
            let (y, z) = match n {
                0 => ([-inf; 4], [inf; 4]),
                1 => ([f64::NAN, f64::NAN, -0.0, inf], [f64::NAN, f64::NAN, -0.0, inf]),
                _ => ([f64::NAN, f64::NAN, -0.0, inf], [f64::NAN, f64::NAN, last, inf]),
            };
            same(&found["y"], &y, "max");
            same(&found["z"], &z, "min");
        }
    }
}

#[test]
fn split_reductions_propagate_nan() {
    let kernel = "\
kernel t(x: &[f32; R, K], y: &mut [f32; R]) {
    axis r in program_tile(R);
    axis k in tiles(K);
    let mut m = full::<f32>(-1.0, [r]);
    for k {
        m = max(m, max(load(x, [r, k]), k));
    }
    store(y, [r], m);
}";
    let mut x = vec![-3.0; 3 * 40];
    x[17] = f64::NAN;
    x[40..80].fill(f64::NAN);
    let case = Case { kernel, dtype: None, dims: &[("R", 3), ("K", 40)], tensors: &[("x", x)], scalars: &[] };
    let found = case.agree(&[
        "tile(r = 2, k = 4); bind(r -> thread.x)",
        "tile(r = 2, k = 4); bind(r -> thread.x); split_k(k, 3)",
        "tile(r = 1, k = 8); bind(k.t -> thread.x); reduce(m: cta); split_k(k, 2)",
    ]);
    same(&found["y"], &[f64::NAN, f64::NAN, -1.0], "max");
}

/// In one thread, a warp, a CTA, through a copy, and shared out among CTAs.
const SUMS: [&str; 6] = [
    "tile(r = 2); bind(r -> thread.x)",
    "tile(r = 2); split(n -> no, nl: 32); bind(r -> warp.x, nl -> lane.x); reduce(s: lane)",
    "tile(r = 1); split(n -> no, nt: 64); bind(nt -> thread.x); reduce(s: cta)",
    "tile(r = 2); split(n -> no, nv: 4); bind(r -> thread.x); vectorize(nv)",
    "tile(r = 2, n = 16); bind(r -> thread.x); stage(x at n: shared)",
    "tile(r = 2, n = 16); bind(r -> thread.x); split_k(n, 3)",
];

#[test]
fn sums_of_16_bit_floats_accumulate_in_f32() {
    let whole = "\
kernel t<T>(x: &[T; R, N], y: &mut [T; R]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let s = sum(load(x, [r, n]), n);
    store(y, [r], s);
}";
    let by_tiles = "\
kernel t<T>(x: &[T; R, N], y: &mut [T; R]) {
    axis r in program_tile(R);
    axis n in tiles(N);
    let mut s = full::<T>(INIT, [r]);
    for n {
        s = s + sum(load(x, [r, n]), n);
    }
    store(y, [r], s);
}";
    // 0.1 is a number of its own in each type, and is one before the sum begins.
    let zero = by_tiles.replace("INIT", "0.0");
    let offset = by_tiles.replace("INIT", "0.1");
    for dtype in FLOATS {
        for n in [0, 1, 15, 16, 17, 4096] {
            for (kernel, start) in [(whole, 0.0), (&*zero, 0.0), (&*offset, 0.1)] {
                let case = Case {
                    kernel,
                    dtype: Some(dtype),
                    dims: &[("R", 3), ("N", n)],
                    tensors: &[("x", vec![1.0; 3 * n as usize])],
                    scalars: &[],
                };
                let found = case.agree(&SUMS);
                // Ones add up exactly below 2²⁴; 0.1 is added first or last, which may differ in f32 only.
                let exact = dtype.round(dtype.round(start) + n as f32);
                let close = |y: &f64| (*y - f64::from(exact)).abs() <= 1e-3 * f64::from(start > 0.0);
                assert!(found["y"].iter().all(close), "{dtype} {n}: {:?}", found["y"]);
            }
        }
    }
}

#[test]
fn a_sum_is_rounded_where_it_is_used() {
    // The sum is used three times: stored, in a comparison, and in another sum.
    let kernel = "\
kernel t<T>(x: &[T; R, N], y: &mut [T; R], z: &mut [T; R]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let s = sum(load(x, [r, n]), n);
    store(y, [r], select(s == 2048.0, 1.0, 0.0) + s);
    store(z, [r], sum(load(x, [r, n]) / s, n));
}";
    // 2049 is a tie in binary16.
    let mut x = vec![1.0; 4 * 2049];
    x[2049] = -1.0;
    for dtype in FLOATS {
        let case = Case {
            kernel,
            dtype: Some(dtype),
            dims: &[("R", 4), ("N", 2049)],
            tensors: &[("x", x.clone())],
            scalars: &[],
        };
        let found = case.agree(&["tile(r = 2); bind(r -> thread.x)"]);
        if dtype == DType::F16 {
            assert_eq!(found["y"][0], 2048.0, "2049 rounds to 2048, and 2049 to 2048 again");
            assert_eq!(found["y"][1], 2047.0);
        }
    }
}
