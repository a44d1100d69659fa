//! The reference evaluator against results worked out by hand.

use half::{bf16, f16};
use std::collections::BTreeMap;
use tile_dsl::{
    dtype::DType,
    tile::{
        evaluate,
        evaluate::{Elements, EvalError, Inputs},
        parse, reference, verify,
    },
};

fn inputs(dims: &[(&str, i64)], tensors: &[(&str, Elements)]) -> Inputs {
    Inputs {
        dims: dims.iter().map(|(n, v)| (n.to_string(), *v)).collect(),
        tensors: tensors.iter().map(|(n, v)| (n.to_string(), v.clone())).collect(),
        ..Inputs::default()
    }
}

fn kernel(text: &str, dtype: Option<DType>) -> tile_dsl::tile::Kernel {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(verify(&kernel), [], "{text}");
    kernel.instantiate(dtype)
}

/// `y[i, n]` = an expression of `x`, `z` (M×N) and the axes i, n.
fn elementwise(value: &str, x: &[f32], z: &[f32]) -> Vec<f32> {
    let text = format!(
        "kernel t(x: &[f32; M, N], z: &[f32; M, N], y: &mut [f32; M, N], s: f32, q: i32) {{
            axis i in program_tile(M);
            axis n in whole(N);
            let a = load(x, [i, n]);
            let b = load(z, [i, n]);
            store(y, [i, n], {value});
        }}"
    );
    let mut inputs =
        inputs(&[("M", 2), ("N", 2)], &[("x", Elements::F32(x.to_vec())), ("z", Elements::F32(z.to_vec()))]);
    inputs.scalars = BTreeMap::from([("s".to_string(), 0.5), ("q".to_string(), 3.0)]);
    match &evaluate(&kernel(&text, None), &inputs).unwrap()["y"] {
        Elements::F32(y) => y.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_elementwise_operation() {
    let (x, z) = ([1.0, -2.0, 4.0, 0.5], [2.0, 3.0, -1.0, 0.25]);
    let run = |value: &str| elementwise(value, &x, &z);
    assert_eq!(run("a + b"), [3.0, 1.0, 3.0, 0.75]);
    assert_eq!(run("a - b"), [-1.0, -5.0, 5.0, 0.25]);
    assert_eq!(run("a * b - s"), [1.5, -6.5, -4.5, -0.375]);
    assert_eq!(run("a / b"), [0.5, -2.0 / 3.0, -4.0, 2.0]);
    assert_eq!(run("max(a, b)"), [2.0, 3.0, 4.0, 0.5]);
    assert_eq!(run("min(a, b)"), [1.0, -2.0, -1.0, 0.25]);
    assert_eq!(run("-a"), [-1.0, 2.0, -4.0, -0.5]);
    assert_eq!(run("abs(a)"), [1.0, 2.0, 4.0, 0.5]);
    assert_eq!(run("sqrt(abs(a))"), x.map(|v: f32| v.abs().sqrt()));
    assert_eq!(run("rsqrt(abs(a))"), x.map(|v: f32| 1.0 / v.abs().sqrt()));
    assert_eq!(run("exp(a)"), x.map(f32::exp));
    assert_eq!(run("log(abs(a))"), x.map(|v: f32| v.abs().ln()));
    assert_eq!(run("tanh(a)"), x.map(f32::tanh));
    assert_eq!(run("select(a <= b, a, 7.0)"), [1.0, -2.0, 7.0, 7.0]);
    assert_eq!(run("select(not(a > b), 1.0, 0.0)"), [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(run("select(and(a != 1.0, b >= 0.25), 1.0, 0.0)"), [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(run("select(or(a == 1.0, b < 0.0), 1.0, 0.0)"), [1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn index_values_and_integers() {
    let run = |value: &str| elementwise(value, &[0.0; 4], &[0.0; 4]);
    assert_eq!(run("(10 * iota(i) + iota(n)).cast::<f32>()"), [0.0, 1.0, 10.0, 11.0]);
    assert_eq!(run("((iota(i) * 7 + iota(n) - q) / 2).cast::<f32>()"), [-1.0, -1.0, 2.0, 2.0]);
    assert_eq!(run("((iota(i) * 7 + iota(n) - q) % 2).cast::<f32>()"), [-1.0, 0.0, 0.0, 1.0]);
    assert_eq!(run("(dim(M) + dim(N)).cast::<f32>() + a"), [4.0; 4]);
    assert_eq!(run("abs(-iota(n)).cast::<f32>() + (iota(i) * 0).cast::<f32>()"), [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(
        run("(2.75 + a).cast::<i32>().cast::<f32>() - (0.0 - 2.75 + a).cast::<i32>().cast::<f32>()"),
        [4.0; 4]
    );
}

#[test]
fn a_nan_shows_in_max_and_fails_comparisons() {
    let x = [f32::NAN, 1.0, f32::NAN, -1.0];
    for op in ["max(a, b)", "max(b, a)", "min(a, b)", "min(b, a)"] {
        let y = elementwise(op, &x, &[0.0; 4]);
        assert_eq!(y.iter().map(|v| v.is_nan()).collect::<Vec<_>>(), [true, false, true, false], "{op}");
    }
    assert_eq!(elementwise("select(a == a, 1.0, 0.0)", &x, &[0.0; 4]), [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(elementwise("select(a != a, 1.0, 0.0)", &x, &[0.0; 4]), [1.0, 0.0, 1.0, 0.0]);
}

const REDUCE: &str = "kernel t<T>(x: &[T; M, N], y: &mut [T; M]) {
    axis i in program_tile(M);
    axis n in whole(N);
    store(y, [i], OP(load(x, [i, n]), n));
}";

#[test]
fn sums_of_16_bit_floats_round_once() {
    let text = |op: &str| REDUCE.replace("OP", op);
    let x = Elements::from_f64(DType::F16, [2048.0, 1.0, 1.0, -3.0, 5.0, 4.0]);
    let run = |op: &str, dims: &[(&str, i64)]| {
        evaluate(&kernel(&text(op), Some(DType::F16)), &inputs(dims, &[("x", x.clone())])).unwrap()["y"]
            .clone()
    };
    let h = |v: [f32; 2]| Elements::F16(v.map(f16::from_f32).to_vec());
    // 2048 + 1 = 2049 is a tie in binary16 and would round to 2048, twice.
    assert_eq!(run("sum", &[("M", 2), ("N", 3)]), h([2050.0, 6.0]));
    assert_eq!(run("max", &[("M", 2), ("N", 3)]), h([2048.0, 5.0]));
    assert_eq!(run("min", &[("M", 2), ("N", 3)]), h([1.0, -3.0]));
}

#[test]
fn reductions_over_nothing_yield_the_neutral_element() {
    let empty = inputs(&[("M", 2), ("N", 0)], &[("x", Elements::F32(vec![]))]);
    for (op, neutral) in [("sum", 0.0), ("max", f32::NEG_INFINITY), ("min", f32::INFINITY)] {
        let y = evaluate(&kernel(&REDUCE.replace("OP", op), Some(DType::F32)), &empty).unwrap();
        assert_eq!(y["y"], Elements::F32(vec![neutral; 2]), "{op}");
    }
    let none = inputs(&[("M", 0), ("N", 3)], &[("x", Elements::F32(vec![]))]);
    assert_eq!(
        evaluate(&kernel(&REDUCE.replace("OP", "sum"), Some(DType::F32)), &none).unwrap()["y"].len(),
        0
    );
}

const MATMUL: &str = "kernel matmul<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc + 0.5).cast::<T>());
}";

fn matmul_inputs(dtype: DType, (m, n, k): (i64, i64, i64)) -> Inputs {
    let numbers = |n: i64, seed: i64| (0..n).map(move |i| ((i * 37 + seed * 11) % 19 - 9) as f64 / 3.0);
    inputs(
        &[("M", m), ("N", n), ("K", k)],
        &[
            ("a", Elements::from_f64(dtype, numbers(m * k, 1))),
            ("b", Elements::from_f64(dtype, numbers(k * n, 2))),
        ],
    )
}

#[test]
fn dot_accumulates_with_fma_in_ascending_order_whatever_the_tile() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let mut inputs = matmul_inputs(dtype, (3, 5, 7));
        let (a, b) = (inputs.tensors["a"].to_f64(), inputs.tensors["b"].to_f64());
        let mut expected = Vec::new();
        for i in 0..3 {
            for j in 0..5 {
                let mut acc = 0f32;
                for k in 0..7 {
                    acc = (a[i * 7 + k] as f32).mul_add(b[k * 5 + j] as f32, acc);
                }
                expected.push(f64::from(acc + 0.5));
            }
        }
        let expected = Elements::from_f64(dtype, expected);
        let kernel = kernel(MATMUL, Some(dtype));
        for tile in [None, Some(1), Some(3), Some(100)] {
            inputs.tiles = tile.map(|t| ("k".to_string(), t)).into_iter().collect();
            assert_eq!(evaluate(&kernel, &inputs).unwrap()["c"], expected, "{dtype} tile {tile:?}");
        }
    }
}

#[test]
fn an_empty_contraction_leaves_the_epilogue_of_zero() {
    let c = evaluate(&kernel(MATMUL, Some(DType::F32)), &matmul_inputs(DType::F32, (2, 3, 0))).unwrap();
    assert_eq!(c["c"], Elements::F32(vec![0.5; 6]));
}

#[test]
fn loads_outside_a_tensor_read_zero() {
    let text = "kernel conv(x: &[f32; N], w: &[f32; 3], y: &mut [f32; N]) {
        axis i in program_tile(N);
        axis r in whole(3);
        store(y, [i], sum(load(x, [i + r - 1]) * load(w, [r]), r));
    }";
    let x = Elements::F32(vec![1.0, 2.0, 3.0, 4.0]);
    let w = Elements::F32(vec![1.0, 10.0, 100.0]);
    let y = evaluate(&kernel(text, None), &inputs(&[("N", 4)], &[("x", x), ("w", w)])).unwrap();
    assert_eq!(y["y"], Elements::F32(vec![210.0, 321.0, 432.0, 43.0]));
}

#[test]
fn stores_keep_what_they_do_not_reach_and_may_read_their_own_element() {
    let text = "kernel t(y: &mut [f32; 2*N]) {
        axis i in program_tile(N);
        store(y, [2*i], load(y, [2*i]) * 10.0);
    }";
    let y = Elements::F32(vec![1.0, 2.0, 3.0, 4.0]);
    let out = evaluate(&kernel(text, None), &inputs(&[("N", 2)], &[("y", y)])).unwrap();
    assert_eq!(out["y"], Elements::F32(vec![10.0, 2.0, 30.0, 4.0]));
}

#[test]
fn sixteen_bit_arithmetic_is_widened_computed_and_rounded() {
    let text = "kernel t<T>(x: &[T; N], y: &mut [T; N]) {
        axis i in program_tile(N);
        store(y, [i], load(x, [i]) * 1.1 + load(x, [i]));
    }";
    let x = [1.0f32, 3.0, -7.5].map(bf16::from_f32);
    let out = evaluate(
        &kernel(text, Some(DType::BF16)),
        &inputs(&[("N", 3)], &[("x", Elements::BF16(x.to_vec()))]),
    )
    .unwrap();
    let round = |v: f32| bf16::from_f32(v).to_f32();
    let expected = x.map(|v| bf16::from_f32(round(v.to_f32() * round(1.1)) + v.to_f32()));
    assert_eq!(out["y"], Elements::BF16(expected.to_vec()));
}

/// Running maximum and rescaled sum: a carried loop.
const ONLINE: &str = "kernel online(x: &[f32; M, N], y: &mut [f32; M]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    let mut m = full::<f32>(-inf, [i]);
    let mut l = full::<f32>(0.0, [i]);
    for j {
        let v = load(x, [i, j]);
        let m2 = max(m, max(v, j));
        l = l * exp(m - m2) + sum(exp(v - m2), j);
        m = m2;
    }
    store(y, [i], m + log(l));
}";

#[test]
fn a_carried_loop_takes_its_tile_as_an_input() {
    let x: Vec<f32> = (0..14).map(|i| ((i * 5) % 7) as f32 - 3.0).collect();
    let exact: Vec<f64> =
        x.chunks(7).map(|row| row.iter().map(|v| f64::from(*v).exp()).sum::<f64>().ln()).collect();
    let mut inputs = inputs(&[("M", 2), ("N", 7)], &[("x", Elements::F32(x))]);
    let kernel = kernel(ONLINE, None);
    let wanted = reference(&kernel, &inputs).unwrap()["y"].clone();
    for tile in [1, 2, 7, 8] {
        inputs.tiles = [("j".to_string(), tile)].into();
        let y = evaluate(&kernel, &inputs).unwrap()["y"].clone();
        for (found, expected) in y.to_f64().iter().zip(&exact) {
            assert!((found - expected).abs() < 1e-6, "tile {tile}: {found} {expected}");
        }
        let comparison = wanted.compare(&y, 1.0);
        assert!(comparison.verified(), "tile {tile}: {comparison:?}");
    }
}

#[test]
fn the_reference_of_a_dot_is_bounded_by_the_dot_of_absolute_values() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let inputs = matmul_inputs(dtype, (4, 4, 9));
        let kernel = kernel(MATMUL, Some(dtype));
        let reference = &reference(&kernel, &inputs).unwrap()["c"];
        let (a, b) = (inputs.tensors["a"].to_f64(), inputs.tensors["b"].to_f64());
        for at in 0..16 {
            let (i, j) = (at / 4, at % 4);
            let products = (0..9).map(|k| a[i * 9 + k] * b[k * 4 + j]);
            let (value, magnitude) = products.fold((0.5, 0.5), |(v, m), p| (v + p, m + p.abs()));
            assert!((reference.values[at] - value).abs() < 1e-13);
            assert!((reference.magnitudes[at] - magnitude).abs() < 1e-13);
        }
        assert_eq!(reference.steps, 10);
        let run = evaluate(&kernel, &inputs).unwrap()["c"].clone();
        assert!(reference.compare(&run, 1.0).verified());
        // One element off by 2 ulp of its type and the run is not verified.
        let mut wrong = run.to_f64();
        let ulp = [(DType::F32, -23), (DType::F16, -10), (DType::BF16, -7)]
            .iter()
            .find(|(d, _)| *d == dtype)
            .unwrap()
            .1;
        wrong[5] += 2f64.powi(ulp) * 50.0 * wrong[5].abs().max(1.0);
        let comparison = reference.compare(&Elements::from_f64(dtype, wrong), 1.0);
        assert!(!comparison.verified());
        assert_eq!(comparison.worst, Some(5));
    }
}

#[test]
fn comparisons_handle_nan_and_overflow() {
    let text = "kernel t(x: &[f16; N], y: &mut [f16; N]) {
        axis i in program_tile(N);
        store(y, [i], load(x, [i]) * load(x, [i]));
    }";
    let x = Elements::from_f64(DType::F16, [300.0, f64::NAN, 2.0]);
    let reference = &reference(&kernel(text, None), &inputs(&[("N", 3)], &[("x", x)])).unwrap()["y"];
    let check = |y: [f64; 3]| reference.compare(&Elements::from_f64(DType::F16, y), 1.0).verified();
    assert!(check([f64::INFINITY, f64::NAN, 4.0]));
    assert!(!check([f64::NEG_INFINITY, f64::NAN, 4.0]));
    assert!(!check([f64::INFINITY, 0.0, 4.0]));
    assert!(!check([f64::INFINITY, f64::NAN, f64::INFINITY]));
    assert!(!check([f64::INFINITY, f64::NAN, f64::NAN]));
}

/// Points beyond the end add +0 to a sum, so that one that is zero has the sign of its schedule. An element has its own.
#[test]
fn what_divides_by_a_sum_that_is_zero_has_either_sign() {
    let text = "kernel t(x: &[f32; K], z: &[f32; N], y: &mut [f32; N], r: &mut [f32; N]) {
        axis i in program_tile(N);
        axis k in tiles(K);
        let mut s = full::<f32>(0.0, []);
        for k {
            s = s + sum(load(x, [k]), k);
        }
        store(y, [i], load(z, [i]) / s);
        store(r, [i], s / load(z, [i]));
    }";
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let of = |x: [f32; 2]| {
        let tensors = [("x", Elements::F32(x.into())), ("z", Elements::F32(vec![1.0, 0.0, -2.0, -0.0]))];
        reference(&kernel(text, None), &inputs(&[("N", 4), ("K", 2)], &tensors)).unwrap()
    };
    let check = |name: &str, x, y: [f32; 4]| of(x)[name].compare(&Elements::F32(y.into()), 1.0).verified();
    for zero in [[0.0, 0.0], [-0.0, -0.0], [3.0, -3.0]] {
        assert!(check("y", zero, [inf, nan, -inf, nan]));
        assert!(check("y", zero, [-inf, nan, inf, nan]));
        assert!(!check("y", zero, [inf, 0.0, inf, nan]), "nothing by nothing");
        assert!(check("r", zero, [-0.0, nan, 0.0, nan]));
        assert!(!check("r", zero, [1.0, nan, 0.0, nan]));
    }
    // The sign of an element is its own.
    assert!(check("r", [1.0, 2.0], [3.0, inf, -1.5, -inf]));
    assert!(!check("r", [1.0, 2.0], [3.0, inf, -1.5, inf]));
}

#[test]
fn arguments_that_do_not_fit_are_errors() {
    let kernel = kernel(MATMUL, Some(DType::F32));
    let good = matmul_inputs(DType::F32, (2, 2, 2));
    let error = |change: &dyn Fn(&mut Inputs)| {
        let mut inputs = good.clone();
        change(&mut inputs);
        evaluate(&kernel, &inputs).unwrap_err().to_string()
    };
    assert_eq!(
        error(&|i| {
            i.dims.remove("K");
        }),
        "no value is given for the dim `K`"
    );
    assert_eq!(
        error(&|i| {
            i.tensors.remove("a");
        }),
        "no value is given for the tensor `a`"
    );
    assert_eq!(
        error(&|i| {
            i.dims.insert("K".into(), -1);
        }),
        "the extent `K` is negative or too large under the given dims"
    );
    assert_eq!(
        error(&|i| {
            i.dims.insert("K".into(), 3);
        }),
        "tensor `a` has shape [2, 3], 4 elements are given"
    );
    let half = Elements::F16(vec![f16::ONE; 4]);
    assert_eq!(
        error(&|i| {
            i.tensors.insert("b".into(), half.clone());
        }),
        "tensor `b` holds f32, f16 elements are given"
    );
    let generic = parse(MATMUL).unwrap();
    assert_eq!(evaluate(&generic, &good), Err(EvalError::Generic("matmul".into())));
}
