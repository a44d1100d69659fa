//! Compiled kernels compute what the kernel IR says: their PTX runs on the simulator.
#![cfg(feature = "codegen")]

mod common;
use common::*;
use half::{bf16, f16};
use ptx_sim::{Launch, Memory, Module, Report, launch};
use tile_dsl::{
    dtype::DType,
    kernel::{Expr, Kernel, Param, Stmt},
    op::{BinOp, CmpOp, UnOp, maximum, minimum, tf32, unary::Magnitude},
};

/// An argument of a run.
enum Arg<'a> {
    Tensor(&'a mut Vec<u8>),
    Int(i32),
    Float(f32),
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
}

/// Compiles and runs a kernel; tensors come back changed.
fn run(kernel: &Kernel, ctas: u32, args: Vec<Arg<'_>>) -> Report {
    let ptx = backend_ptx::compile(kernel).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let module = Module::parse(&ptx.text).unwrap_or_else(|e| panic!("{e}\n{}", ptx.text));
    let mut memory = Memory::new();
    let mut params = Vec::new();
    let mut tensors = Vec::new();
    for (arg, param) in args.into_iter().zip(&kernel.params) {
        params.push(match arg {
            Arg::Tensor(data) => {
                let Param::Tensor { name, .. } = param else { panic!("not a tensor") };
                let address = memory.alloc(name, data.len() as u64).unwrap();
                memory.write(address, data).unwrap();
                tensors.push((address, data));
                address.to_le_bytes().to_vec()
            }
            Arg::Int(x) => x.to_le_bytes().to_vec(),
            Arg::Float(x) => x.to_le_bytes().to_vec(),
        });
    }
    let launched = Launch {
        kernel: ptx.entry.clone(),
        grid: [ctas, 1, 1],
        block: [ptx.threads, 1, 1],
        dynamic_shared: ptx.dynamic_shared,
        params,
        ..Launch::default()
    };
    let report = launch(&module, &mut memory, &launched).unwrap();
    if let Some(finding) = report.findings.first() {
        panic!("{}: {finding}\n{}", kernel.name, ptx.text);
    }
    for (address, data) in tensors {
        memory.read(address, data).unwrap();
    }
    report
}

/// Numbers that are exact in every type, small enough for exact sums.
fn small(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + seed * 13) % 11) as f32 - 5.0).collect()
}

#[test]
fn guards_keep_inside() {
    for n in [1usize, 127, 128, 300] {
        let (x, y) = (small(n, 1), small(n, 2));
        let mut out = bytes(&y);
        let args = vec![
            Arg::Tensor(&mut bytes(&x)).into_static(),
            Arg::Tensor(&mut out),
            Arg::Int(n as i32),
            Arg::Float(3.0),
        ];
        run(&saxpy(), n.div_ceil(128) as u32, args);
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
        assert_eq!(floats(&out), expected, "N = {n}");
    }
}

impl Arg<'_> {
    /// Gives a temporary tensor a life as long as the test.
    fn into_static(self) -> Arg<'static> {
        match self {
            Arg::Tensor(data) => Arg::Tensor(Box::leak(Box::new(std::mem::take(data)))),
            Arg::Int(x) => Arg::Int(x),
            Arg::Float(x) => Arg::Float(x),
        }
    }
}

fn check_matmul(fill: Fill, exact: bool, ring: u32, [m, n, k]: [usize; 3]) -> Report {
    let (mut a, mut b) = (bytes(&small(m * k, 1)), bytes(&small(k * n, 2)));
    let mut c = bytes(&vec![f32::NAN; m * n]);
    let (fa, fb) = (floats(&a), floats(&b));
    let ctas = (m.div_ceil(64) * n.div_ceil(64)) as u32;
    let dims = [m, n, k].map(|d| Arg::Int(d as i32));
    let mut args = vec![Arg::Tensor(&mut a), Arg::Tensor(&mut b), Arg::Tensor(&mut c)];
    args.extend(dims);
    let report = run(&matmul(fill, exact, ring), ctas, args);
    let c = floats(&c);
    for i in 0..m {
        for j in 0..n {
            let expected: f32 = (0..k).map(|l| fa[i * k + l] * fb[l * n + j]).sum();
            assert_eq!(c[i * n + j], expected, "C[{i}, {j}] of {m}×{n}×{k}");
        }
    }
    report
}

#[test]
fn shared_memory_barriers_and_vectors() {
    check_matmul(Fill::Plain, true, 1, [64, 128, 32]);
    for size in [[1, 4, 4], [65, 68, 20], [64, 64, 0], [130, 132, 36]] {
        check_matmul(Fill::Plain, false, 1, size);
    }
}

#[test]
fn asynchronous_copies() {
    check_matmul(Fill::Async, true, 1, [64, 64, 48]);
    for size in [[1, 4, 4], [65, 68, 20], [130, 132, 36]] {
        check_matmul(Fill::Async, false, 2, size);
    }
}

#[test]
fn dynamic_shared_memory() {
    check_matmul(Fill::Async, false, 8, [64, 68, 84]);
}

#[test]
fn counters_show_coalescing() {
    let report = check_matmul(Fill::Plain, true, 1, [64, 64, 64]);
    // 4 copies of 64×16 and 16×64 elements, 128 floats a request: each row of B is 8 sectors.
    let loads = report.counters.buffer("b", ptx_sim::Access::Load);
    assert_eq!((loads.requests, loads.sectors, loads.bytes), (32, 512, 16384));
    assert_eq!(report.counters.barriers_per_cta, 8.0);
}

#[test]
fn shuffles_sum_a_warp() {
    let exact = small(96, 3);
    let expected: Vec<f32> = exact.chunks(32).map(|c| c.iter().sum()).collect();
    let mut y = bytes(&[f32::NAN; 3]);
    run(&warp_sum(F32), 3, vec![Arg::Tensor(&mut bytes(&exact)), Arg::Tensor(&mut y), Arg::Int(3)]);
    assert_eq!(floats(&y), expected);

    let mut x16: Vec<u8> = exact.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
    let mut y16 = vec![0xff; 6];
    run(&warp_sum(DType::F16), 3, vec![Arg::Tensor(&mut x16), Arg::Tensor(&mut y16), Arg::Int(3)]);
    let narrow: Vec<f32> = y16.as_chunks().0.iter().map(|c| f16::from_le_bytes(*c).to_f32()).collect();
    assert_eq!(narrow, expected);
}

/// `y = f(x)` over all `x`, in `f32`.
fn apply(name: &str, x: &[f32], f: impl FnOnce(Expr) -> Expr) -> Vec<f32> {
    let mut y = bytes(&vec![0.0; x.len()]);
    let args = vec![Arg::Tensor(&mut bytes(x)).into_static(), Arg::Tensor(&mut y), Arg::Int(x.len() as i32)];
    run(&map(name, F32, F32, f), x.len().div_ceil(32) as u32, args);
    floats(&y)
}

/// Distance in units of the last place of the exact result.
fn ulps(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got == rounded || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    let ulp = if rounded.is_infinite() {
        f64::from(f32::MAX) * f64::from(f32::EPSILON)
    } else {
        let next = f32::from_bits((rounded.abs().to_bits() + 1).min(0x7f7f_ffff));
        (f64::from(next) - f64::from(rounded.abs())).max(1e-45)
    };
    (f64::from(got) - exact).abs() / ulp
}

/// Values of every exponent, dense where functions turn, and the special ones.
fn samples() -> Vec<f32> {
    let mut x = vec![0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN];
    x.extend([f32::MIN_POSITIVE, 1e-45, 1e-40, 0.55, 0.5499999, 2.0 / 3.0, 4.0 / 3.0]);
    x.extend([-104.0, -103.9, -87.3, -87.4, 88.7, 88.8, 88.0, -86.0, 87.0, -90.0]);
    x.extend((0..2000).map(|i| (i - 1000) as f32 * 0.11));
    x.extend((0..2000).map(|i| 0.5 + i as f32 * 0.0005));
    x.extend((0..1275u32).flat_map(|e| {
        let bits = (e / 5) << 23 | (e.wrapping_mul(0x9e37_79b9) >> 9);
        [f32::from_bits(bits), -f32::from_bits(bits)]
    }));
    x
}

#[test]
fn functions_are_accurate() {
    let x = samples();
    for &op in UnOp::ALL {
        let Some(real) = op.row().float else { continue };
        let function = |x: f64| match (real.bounded)(x, 0.0) {
            Magnitude::Exact(y, _) | Magnitude::Rounded(y, _) => y,
        };
        let limit = real.ulps;
        let y = apply(op.name(), &x, |x| un(op, x));
        let mut worst = (0.0, 0.0);
        for (&x, &y) in x.iter().zip(&y) {
            let error = ulps(y, function(x.into()));
            let flushed = y == 0.0 && function(x.into()).abs() < real.least;
            assert!(
                error <= limit || flushed,
                "{}({x:e}) = {y:e}, {} is exact: {error} ulp",
                op.name(),
                function(x.into())
            );
            if error > worst.0 && !flushed {
                worst = (error, x);
            }
        }
        println!("{}: {} ulp at {:e}", op.name(), worst.0, worst.1);
    }
}

#[test]
fn signs_and_selections() {
    let x = samples();
    let same = |name: &str, f: fn(Expr) -> Expr, expected: fn(f32) -> f32| {
        for (&x, y) in x.iter().zip(apply(name, &x, f)) {
            let e = expected(x);
            assert!(
                y.to_bits() == e.to_bits() || (y.is_nan() && e.is_nan()),
                "{name}({x:e}) = {y:e}, not {e:e}"
            );
        }
    };
    same("neg", |x| un(UnOp::Neg, x), |x| -x);
    same("abs", |x| un(UnOp::Abs, x), f32::abs);
    same("tf32", |x| un(UnOp::Tf32, x), tf32);
    // NaN shows, and −0 lies below +0.
    same("max", |x| bin(BinOp::Max, x, float(2.0)), |x| maximum(x.into(), 2.0) as f32);
    same("min", |x| bin(BinOp::Min, float(2.0), x), |x| minimum(x.into(), 2.0) as f32);
    same("max_zero", |x| bin(BinOp::Max, float(-0.0), x), |x| maximum(x.into(), -0.0) as f32);
    same("min_zero", |x| bin(BinOp::Min, x, float(0.0)), |x| minimum(x.into(), 0.0) as f32);
    same("relu_nan", |x| bin(BinOp::Max, x, float(0.0)), |x| maximum(x.into(), 0.0) as f32);
    same("div", |x| bin(BinOp::Div, float(3.0), x), |x| 3.0 / x);
    same("madd", |x| add(mul(x.clone(), float(1.1)), x), |x| x * 1.1 + x);
    same("fma", |x| fma(x.clone(), float(1.1), x), |x| x.mul_add(1.1, x));
    let relu = |x: Expr| {
        Expr::Select(Box::new(cmp(CmpOp::Gt, x.clone(), float(0.0))), Box::new(x), Box::new(float(0.0)))
    };
    same("relu", relu, |x| if x > 0.0 { x } else { 0.0 });
    let not_equal = |x: Expr| cast(F32, cmp(CmpOp::Ne, x.clone(), x));
    same("is_nan", not_equal, |x| if x.is_nan() { 1.0 } else { 0.0 });
    let truncated = |x: Expr| cast(F32, cast(I32, x));
    same("truncate", truncated, |x| x as i32 as f32);
}

/// Integers of a type, as they lie in memory.
fn integers(dtype: DType, values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()[..dtype.bytes() as usize].to_vec()).collect()
}

/// A type's extremes and the numbers where other types end.
fn edges(dtype: DType) -> Vec<i64> {
    let ends = DType::integers().flat_map(|d| [d.least(), d.least() + 1, d.greatest() - 1, d.greatest()]);
    let all = ends.chain([-65536, -7, -2, -1, 0, 1, 2, 7, 31, 32, 33, 65536, 1 << 24, (1 << 31) + 1]);
    let mut all: Vec<i64> = all.filter(|n| dtype.wrap(*n) == *n && n.unsigned_abs() < 1 << 53).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Arithmetic of integers over all pairs of edges, by a register and by a literal.
#[test]
fn integers_are_defined_everywhere() {
    for dtype in [DType::I32, DType::U32] {
        let numbers = edges(dtype);
        let pairs = || numbers.iter().flat_map(|x| numbers.iter().map(move |z| (*x, *z)));
        let (left, right): (Vec<i64>, Vec<i64>) = pairs().unzip();
        let count = left.len();
        for &op in BinOp::ALL {
            for literal in numbers.iter().copied().map(Some).chain([None]) {
                let mut b = Builder::new("integers", 1024);
                let (x, z) = (b.tensor("x", dtype, false, 4), b.tensor("z", dtype, false, 4));
                let y = b.tensor("y", dtype, true, 4);
                let mut body = Vec::new();
                let inside = Some(lt(Expr::Tid, int(count as i64)));
                let a = b.load(&mut body, dtype, 1, x, Expr::Tid, inside.clone()).remove(0);
                let c = b.load(&mut body, dtype, 1, z, Expr::Tid, inside.clone()).remove(0);
                let c = literal.map_or(c, |n| Expr::Int(n, dtype));
                let (a, c) = (Box::new(a), Box::new(c));
                let value = if op.wraps(dtype) { Expr::Wrapping(op, a, c) } else { Expr::Bin(op, a, c) };
                body.push(Stmt::Store { mem: y, offset: Expr::Tid, values: vec![value], guard: inside });
                let (mut x, mut z) = (integers(dtype, &left), integers(dtype, &right));
                let mut y = vec![0xff; count * 4];
                let args = vec![Arg::Tensor(&mut x), Arg::Tensor(&mut z), Arg::Tensor(&mut y)];
                run(&b.finish(body), 1, args);
                let expected = pairs().map(|(x, z)| op.of_integers(dtype, x, literal.unwrap_or(z)));
                let expected: Vec<i64> = expected.map(|n| n.expect("of integers")).collect();
                assert_eq!(y, integers(dtype, &expected), "{dtype} {} {literal:?}", op.name());
            }
        }
    }
}

/// Comparisons of integers over all pairs of edges.
#[test]
fn integers_are_compared_by_their_own_sign() {
    for dtype in DType::integers() {
        let numbers = edges(dtype);
        let pairs = || numbers.iter().flat_map(|x| numbers.iter().map(move |z| (*x, *z)));
        let (left, right): (Vec<i64>, Vec<i64>) = pairs().unzip();
        for op in [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge] {
            let mut b = Builder::new("compared", 1024);
            let (x, z) = (b.tensor("x", dtype, false, 4), b.tensor("z", dtype, false, 4));
            let y = b.tensor("y", DType::I32, true, 4);
            let mut body = Vec::new();
            let inside = Some(lt(Expr::Tid, int(left.len() as i64)));
            let a = b.load(&mut body, dtype, 1, x, Expr::Tid, inside.clone()).remove(0);
            let c = b.load(&mut body, dtype, 1, z, Expr::Tid, inside.clone()).remove(0);
            let values = vec![cast(DType::I32, cmp(op, a, c))];
            body.push(Stmt::Store { mem: y, offset: Expr::Tid, values, guard: inside });
            let (mut x, mut z) = (integers(dtype, &left), integers(dtype, &right));
            let mut y = vec![0xff; left.len() * 4];
            let args = vec![Arg::Tensor(&mut x), Arg::Tensor(&mut z), Arg::Tensor(&mut y)];
            run(&b.finish(body), 1, args);
            let expected: Vec<i64> = pairs().map(|(x, z)| op.holds(&x, &z).into()).collect();
            assert_eq!(y, integers(DType::I32, &expected), "{dtype} {}", op.name());
        }
    }
}

/// Casts between all types but those of fewer bits than f32, as Rust's `as` has them.
#[test]
fn numbers_are_cast_as_rust_casts_them() {
    let bytes = |dtype: DType, x: f64| match dtype {
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        _ => integers(dtype, &[x as i64]),
    };
    let types = || DType::integers().chain([DType::F32]);
    for (from, to) in types().flat_map(|from| types().map(move |to| (from, to))) {
        let numbers: Vec<f64> = match from {
            DType::F32 => {
                let far = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, -1e30, 0.9, -0.9, 2.5, -2.5];
                let whole = edges(DType::I64).into_iter().map(|n| f64::from(n as f32));
                whole.chain(far.map(|x| f64::from(x as f32))).collect()
            }
            _ => edges(from).into_iter().map(|n| n as f64).collect(),
        };
        let mut b = Builder::new("cast", 128);
        let (x, y) = (b.tensor("x", from, false, 4), b.tensor("y", to, true, 4));
        let mut body = Vec::new();
        let inside = Some(lt(Expr::Tid, int(numbers.len() as i64)));
        let a = b.load(&mut body, from, 1, x, Expr::Tid, inside.clone()).remove(0);
        let values = vec![cast(to, a)];
        body.push(Stmt::Store { mem: y, offset: Expr::Tid, values, guard: inside });
        let mut x: Vec<u8> = numbers.iter().flat_map(|x| bytes(from, *x)).collect();
        let mut y = vec![0xff; numbers.len() * to.bytes() as usize];
        run(&b.finish(body), 1, vec![Arg::Tensor(&mut x), Arg::Tensor(&mut y)]);
        let size = to.bytes() as usize;
        for (x, y) in numbers.iter().zip(y.chunks(size)) {
            let expected = to.cast_f64(from, *x);
            // What lies beyond 2^53 is compared as the nearest f64.
            let found = match to {
                DType::F32 => f64::from(f32::from_le_bytes(y.try_into().expect("four bytes"))),
                _ => {
                    let mut word = [0; 8];
                    word[..size].copy_from_slice(y);
                    to.wrap(i64::from_le_bytes(word)) as f64
                }
            };
            assert!(
                found == expected || found.is_nan() && expected.is_nan(),
                "{x} from {from} to {to}: {found}"
            );
        }
    }
}

#[test]
fn narrow_types_round_to_nearest_even() {
    let x = samples();
    for (dtype, expected) in [
        (DType::F16, (|x| f16::from_f32(x).to_f32()) as fn(f32) -> f32),
        (DType::BF16, |x| bf16::from_f32(x).to_f32()),
    ] {
        let name = format!("round_{}", dtype.name());
        let y = apply(&name, &x, |x| cast(F32, cast(dtype, x)));
        for (&x, y) in x.iter().zip(y) {
            let e = expected(x);
            assert!(y == e || (y.is_nan() && e.is_nan()), "{name}({x:e}) = {y:e}, not {e:e}");
        }
        // Arithmetic widens, computes and rounds.
        let name = format!("arithmetic_{}", dtype.name());
        let y = apply(&name, &x, |x| {
            let narrow = cast(dtype, x);
            cast(F32, mul(add(narrow.clone(), Expr::Float(1.0, dtype)), narrow))
        });
        for (&x, y) in x.iter().zip(y) {
            let e = expected(expected(expected(x) + 1.0) * expected(x));
            assert!(y == e || (y.is_nan() && e.is_nan()), "{name}({x:e}) = {y:e}, not {e:e}");
        }
    }
}

/// Tensors of 16-bit elements, eight a vector.
#[test]
fn narrow_vectors() {
    for dtype in [DType::F16, DType::BF16] {
        let mut b = Builder::new("narrow_vectors", 32);
        let x = b.tensor("x", dtype, false, 16);
        let y = b.tensor("y", dtype, true, 16);
        let mut body = Vec::new();
        let at = mul(Expr::Tid, int(8));
        let inside = Some(lt(Expr::Tid, int(20)));
        let values = b.load(&mut body, dtype, 8, x, at.clone(), inside);
        let values = values.into_iter().rev().map(|v| add(v.clone(), v)).collect();
        body.push(Stmt::Store { mem: y, offset: at, values, guard: None });
        let kernel = b.finish(body);
        let encode = |x: f32| match dtype {
            DType::F16 => f16::from_f32(x).to_le_bytes(),
            _ => bf16::from_f32(x).to_le_bytes(),
        };
        let values = small(256, 5);
        let mut x: Vec<u8> = values.iter().flat_map(|x| encode(*x)).collect();
        let mut y = vec![0xff; 512];
        let report = run(&kernel, 1, vec![Arg::Tensor(&mut x), Arg::Tensor(&mut y)]);
        let expected: Vec<u8> = (0..256)
            .flat_map(|i| encode(if i < 160 { 2.0 * values[i / 8 * 8 + 7 - i % 8] } else { 0.0 }))
            .collect();
        assert_eq!(y, expected, "{dtype}");
        assert_eq!(report.counters.global_load.requests, 1, "one 16-byte load");
    }
}

/// Every byte of a warp, each another one, comes to the lane and the place that has its row and column then.
#[test]
fn four_lanes_join_pairs() {
    let dtype = DType::F8;
    let mut b = Builder::new("four_lanes_join_pairs", 32);
    let (x, y) = (b.tensor("x", dtype, false, 16), b.tensor("y", dtype, true, 16));
    let mut body = Vec::new();
    let at = mul(Expr::Tid, int(8));
    let values = b.load(&mut body, dtype, 8, x, at.clone(), None);
    let dst: Vec<_> = values.iter().map(|_| b.var(dtype)).collect();
    body.push(Stmt::JoinTwos { dst: dst.clone(), values });
    body.push(Stmt::Store { mem: y, offset: at, values: dst.into_iter().map(var).collect(), guard: None });
    let kernel = b.finish(body);
    let mut x: Vec<u8> = (0..=255).collect();
    let mut y = vec![0; 256];
    run(&kernel, 1, vec![Arg::Tensor(&mut x), Arg::Tensor(&mut y)]);
    // Row and column of what a lane gives and gets.
    let given = |lane: usize, n: usize| (lane / 4 + n / 2 % 2 * 8, lane % 4 * 2 + n / 4 * 8 + n % 2);
    let got = |lane: usize, n: usize| (lane / 4 + n / 4 * 8, lane % 4 * 4 + n % 4);
    let all = || (0..32).flat_map(|lane| (0..8).map(move |n| (lane, n)));
    for (lane, n) in all() {
        let (from, m) = all().find(|(from, m)| given(*from, *m) == got(lane, n)).unwrap();
        assert_eq!(y[8 * lane + n], (8 * from + m) as u8, "element {n} of lane {lane}");
    }
}

/// Loops and branches of every shape, in 32 and 64 bits.
#[test]
fn control_flow() {
    for ty in [I32, DType::I64] {
        let mut b = Builder::new("control", 32);
        let y = b.tensor("y", F32, true, 4);
        let n = b.dim("N");
        let sum = b.frag("sum", F32, 1);
        let (i, j) = (b.var(ty), b.var(ty));
        let either = b.var(F32);
        let number = |x: i64| Expr::Int(x, ty);
        let inner = vec![Stmt::Set { frag: sum, slot: 0, value: add(slot(sum, 0), float(1.0)) }];
        let body = vec![
            Stmt::Set { frag: sum, slot: 0, value: float(0.0) },
            Stmt::For {
                var: i,
                start: number(0),
                end: cast(ty, n),
                step: number(2),
                body: vec![Stmt::For {
                    var: j,
                    start: var(i),
                    end: cast(ty, Expr::Tid),
                    step: number(1),
                    body: inner,
                }],
            },
            Stmt::If {
                cond: lt(Expr::Tid, int(7)),
                then: vec![Stmt::Let(either, slot(sum, 0))],
                otherwise: vec![Stmt::Let(either, un(UnOp::Neg, slot(sum, 0)))],
            },
            Stmt::Store { mem: y, offset: cast(ty, Expr::Tid), values: vec![var(either)], guard: None },
        ];
        let kernel = b.finish(body);
        for n in [0, 1, 5, 9] {
            let mut y = bytes(&[f32::NAN; 32]);
            run(&kernel, 1, vec![Arg::Tensor(&mut y), Arg::Int(n)]);
            let expected: Vec<f32> = (0..32)
                .map(|tid| {
                    let sum: i32 = (0..n).step_by(2).map(|i| (tid - i).max(0)).sum();
                    if tid < 7 { sum as f32 } else { -sum as f32 }
                })
                .collect();
            assert_eq!(floats(&y), expected, "N = {n}, {ty:?}");
        }
    }
}
