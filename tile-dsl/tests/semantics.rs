//! What operators mean where they are easily left undefined: evaluator, nest interpreter and kernel interpreter, in
//! every variant, give the same bits.

mod support;
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    engine,
    kernel::interpret::{Launch, interpret as run_kernel},
    lower::{assumptions, lower},
    nest::{Arithmetic, interpret as run_nest},
    program::Variant,
    tile::{
        ElemType,
        evaluate::{Elements, Inputs, evaluate},
    },
};

/// One kernel on given elements; a tensor without any starts as zeros.
struct Case<'a> {
    kernel: &'a str,
    dtype: Option<DType>,
    dims: &'a [(&'a str, i64)],
    tensors: &'a [(&'a str, Vec<f64>)],
    scalars: &'a [(&'a str, f64)],
}

impl Case<'_> {
    /// What the evaluator computes; every schedule in every executor and variant agrees with it.
    fn agree(&self, schedules: &[&str]) -> BTreeMap<String, Vec<f64>> {
        let kernel = support::kernel(self.kernel);
        let fixed = kernel.instantiate(self.dtype);
        let dims: BTreeMap<String, i64> = self.dims.iter().map(|(n, x)| (n.to_string(), *x)).collect();
        let mut inputs = Inputs { dims: dims.clone(), ..Inputs::default() };
        inputs.scalars = self.scalars.iter().map(|(n, x)| (n.to_string(), *x)).collect();
        let mut launch = Launch { dims: dims.clone(), ..Launch::default() };
        launch.scalars = self.scalars.iter().map(|(n, x)| (n.to_string(), *x as f32)).collect();
        for tensor in &fixed.tensors {
            let ElemType::Fixed(dtype) = tensor.elem else { panic!("instantiated") };
            let given = self.tensors.iter().find(|(name, _)| *name == tensor.name);
            let len: i64 = tensor.dims.iter().map(|d| d.eval(&dims).unwrap()).product();
            let elements = given.map_or_else(|| vec![0.0; len as usize], |(_, x)| x.clone());
            let elements = Elements::from_f64(dtype, elements);
            launch.tensors.insert(tensor.name.clone(), elements.to_f64().iter().map(|x| *x as f32).collect());
            inputs.tensors.insert(tensor.name.clone(), elements);
        }
        let expected: BTreeMap<String, Vec<f64>> =
            evaluate(&fixed, &inputs).unwrap().into_iter().map(|(n, x)| (n, x.to_f64())).collect();
        for text in schedules {
            let program = engine::schedule(&kernel, &support::schedule(text), self.dtype)
                .unwrap_or_else(|e| panic!("{text}: {e:#?}"));
            let found = run_nest(&program.nest, &inputs, Arithmetic::Exact, 3).unwrap();
            for (name, wanted) in &expected {
                same(wanted, &found[name], &format!("nest, `{text}`, {:?}: {name}", self.dims));
            }
            let mut ran = 0;
            for variant in [Variant::Exact, Variant::Aligned, Variant::General] {
                let bases = vec![256; fixed.tensors.len()];
                if !assumptions(&program, variant).iter().all(|a| a.holds(&dims, &bases)) {
                    continue;
                }
                ran += 1;
                let lowered = lower(&program, variant).unwrap_or_else(|e| panic!("{text}: {e}"));
                let mut launch = launch.clone();
                run_kernel(&lowered, &mut launch).unwrap_or_else(|e| panic!("{text}: {e}"));
                for (name, wanted) in &expected {
                    let found: Vec<f64> = launch.tensors[name].iter().map(|x| f64::from(*x)).collect();
                    same(wanted, &found, &format!("{variant}, `{text}`, {:?}: {name}", self.dims));
                }
            }
            assert!(ran > 0, "`{text}` runs in no variant at {dims:?}");
        }
        expected
    }
}

fn same(wanted: &[f64], found: &[f64], what: &str) {
    let agree = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    assert_eq!(wanted.len(), found.len(), "{what}");
    let differs = wanted.iter().zip(found).position(|(a, b)| !agree(a, b));
    assert_eq!(differs, None, "{what}: {wanted:?}, found {found:?}");
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const ELEMENTWISE: [&str; 2] = [
    "tile(i = 8); bind(i -> thread.x)",
    "tile(i = 16); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv)",
];

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

#[test]
fn integers_wrap_and_divide_by_zero() {
    let kernel = "\
kernel t(x: &[f32; N], q: i32, OUT) {
    axis i in program_tile(N);
    let a = load(x, [i]).cast::<i32>();
BODY}";
    let operations = [
        "a / q",
        "a % q",
        "a / (iota(i) - 3)",
        "a % (iota(i) - 3)",
        "a + q",
        "a - q",
        "a * q",
        "-a",
        "abs(a)",
    ];
    let out: Vec<String> = (0..operations.len()).map(|n| format!("y{n}: &mut [f32; N]")).collect();
    let body: String =
        (0..).zip(operations).map(|(n, e)| format!("    store(y{n}, [i], ({e}).cast::<f32>());\n")).collect();
    let kernel = kernel.replace("OUT", &out.join(", ")).replace("BODY", &body);
    let low = f64::from(i32::MIN);
    let x = [low, -7.0, 0.0, 7.0, 2.0 * 1_073_741_760.0, low, 1.0, low];
    for q in [0, -1, 1, 2, -3, i32::MIN] {
        let case = Case {
            kernel: &kernel,
            dtype: None,
            dims: &[("N", 8)],
            tensors: &[("x", x.to_vec())],
            scalars: &[("q", q.into())],
        };
        let found = case.agree(&ELEMENTWISE);
        let y = |f: &dyn Fn(i32, i32) -> i32| -> Vec<f64> {
            (0..).zip(x).map(|(i, x)| f64::from(f(x as i32, i) as f32)).collect()
        };
        let div = |a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_div(b) };
        let rem = |a: i32, b: i32| if b == 0 { 0 } else { a.wrapping_rem(b) };
        same(&found["y0"], &y(&|a, _| div(a, q)), "a / q");
        same(&found["y1"], &y(&|a, _| rem(a, q)), "a % q");
        same(&found["y2"], &y(&|a, i| div(a, i - 3)), "a / (i - 3)");
        same(&found["y3"], &y(&|a, i| rem(a, i - 3)), "a % (i - 3)");
        same(&found["y4"], &y(&|a, _| a.wrapping_add(q)), "a + q");
        same(&found["y5"], &y(&|a, _| a.wrapping_sub(q)), "a - q");
        same(&found["y6"], &y(&|a, _| a.wrapping_mul(q)), "a * q");
        same(&found["y7"], &y(&|a, _| a.wrapping_neg()), "-a");
        same(&found["y8"], &y(&|a, _| a.wrapping_abs()), "abs(a)");
    }
}

#[test]
fn literal_integers_fold_to_the_same() {
    let kernel = "\
kernel t(y: &mut [f32; N], z: &mut [f32; N]) {
    axis i in program_tile(N);
    store(y, [i], (iota(i) / 0 + (7 % 0) + (2147483647 + 1) / (0 - 1)).cast::<f32>());
    store(z, [i], select(iota(i) == 3, 7, 12 / (iota(i) - 3)).cast::<f32>());
}";
    let case = Case { kernel, dtype: None, dims: &[("N", 6)], tensors: &[], scalars: &[] };
    let unrolled = "tile(i = 16); split(i -> it, iu: 8); bind(it -> thread.x); unroll(iu)";
    let found = case.agree(&[ELEMENTWISE[0], ELEMENTWISE[1], unrolled]);
    same(&found["y"], &[f64::from(i32::MIN); 6], "folded");
    same(&found["z"], &[-4.0, -6.0, -12.0, 7.0, 12.0, 6.0], "guarded by select");
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

/// Which variants accept these dims.
fn accepted(kernel: &str, schedule: &str, dims: &[(&str, i64)]) -> Vec<Variant> {
    let kernel = support::kernel(kernel);
    let program = engine::schedule(&kernel, &support::schedule(schedule), None).unwrap();
    let dims = dims.iter().map(|(n, x)| (n.to_string(), *x)).collect();
    let bases = vec![256; kernel.tensors.len()];
    let all = [Variant::Exact, Variant::Aligned, Variant::General];
    all.into_iter().filter(|v| assumptions(&program, *v).iter().all(|a| a.holds(&dims, &bases))).collect()
}

#[test]
fn offsets_beyond_32_bits_are_for_the_general_variant() {
    let thread = "tile(i = 256); bind(i -> thread.x)";
    let rows = "\
kernel t(x: &[f32; N, 65536], y: &mut [f32; N]) {
    axis i in program_tile(N);
    axis r in whole(1);
    store(y, [i], sum(load(x, [i, r + 5]), r));
}";
    use Variant::{Aligned, Exact, General};
    assert_eq!(accepted(rows, thread, &[("N", 32768 - 256)]), [Exact, Aligned, General]);
    assert_eq!(accepted(rows, thread, &[("N", 32768)]), [General]);
    assert_eq!(accepted(rows, thread, &[("N", 1 << 24)]), [General]);
    // Numbers only: no launch could say so.
    let fixed = rows.replace("N, 65536", "65536, 65536").replace("[f32; N]", "[f32; 65536]");
    let fixed = fixed.replace("program_tile(N)", "program_tile(65536)");
    assert_eq!(accepted(&fixed, thread, &[]), [General]);
    let small = fixed.replace("65536, 65536", "65536, 32");
    assert_eq!(accepted(&small, thread, &[]), [Exact, Aligned, General]);
    for (text, wide) in [(rows, true), (&*fixed, true), (&*small, false)] {
        let kernel = support::kernel(text);
        let program = engine::schedule(&kernel, &support::schedule(thread), None).unwrap();
        let lowered = lower(&program, General).unwrap().to_string();
        let product = lowered.lines().any(|l| l.contains("i64") && l.contains("* 65536l"));
        assert_eq!(product, wide, "{lowered}");
    }
}

#[test]
fn indices_stay_in_32_bits_or_the_launch_is_refused() {
    let kernel = "\
kernel t(x: &[f32; N], y: &mut [f32; N]) {
    axis i in program_tile(N);
    store(y, [i], load(x, [INDEX]));
}";
    let thread = "tile(i = 32); bind(i -> thread.x)";
    for (index, most) in [
        ("2000000000*i", 1),
        ("1073741824*i + 3", 2),
        ("-1073741823*i", 2),
        ("65536*i", 1 << 15),
        ("i - 2147483600", 0),
        ("i + 2147483600", 0),
        ("i + 5", (1 << 31) - (1 << 16) - 1),
        ("i", (1 << 31) - (1 << 16) - 1),
    ] {
        let kernel = kernel.replace("INDEX", index);
        // General needs tails in range, too: sizes are rounded up to the tile.
        let general = |n: i64| accepted(&kernel, thread, &[("N", n)]).contains(&Variant::General);
        let rounded = most / 32 * 32;
        assert!(rounded == 0 || general(rounded), "{index}: {rounded}");
        assert!(!general(most + 33), "{index}: {}", most + 33);
    }
    // Whatever is accepted is right.
    let strided = kernel.replace("INDEX", "1000000*i + 1");
    for n in [0, 1, 31, 32, 33, 2147] {
        if accepted(&strided, thread, &[("N", n)]).is_empty() {
            assert!(n > 2112);
            continue;
        }
        let x = (0..n).map(|x| x as f64).collect();
        let case =
            Case { kernel: &strided, dtype: None, dims: &[("N", n)], tensors: &[("x", x)], scalars: &[] };
        case.agree(&[thread, "tile(i = 32); split(i -> it, iv: 4); bind(it -> thread.x); unroll(iv)"]);
    }
}

#[test]
fn grouped_orders_do_not_overflow() {
    let kernel = "\
kernel t(x: &[f32; M, N], y: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    store(y, [i, j], load(x, [i, j]) + 1.0);
}";
    let x: Vec<f64> = (0..7 * 9).map(f64::from).collect();
    for band in [1, 2, 3, 4, 5, 255, 256, 65536, 858_993_460, 1_073_741_824, i32::MAX as u32, u32::MAX] {
        for (i, j) in [(2, 2), (4, 1), (8, 16)] {
            let schedule = format!(
                "tile(i = {i}, j = {j}); order(grouped({band})); {}",
                if j > 1 { "bind(j -> thread.x)" } else { "" }
            );
            let case = Case {
                kernel,
                dtype: None,
                dims: &[("M", 7), ("N", 9)],
                tensors: &[("x", x.clone())],
                scalars: &[],
            };
            let found = case.agree(&[&schedule]);
            same(&found["y"], &x.iter().map(|x| x + 1.0).collect::<Vec<_>>(), &schedule);
        }
    }
}

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
