//! `online`: the text with one loop computes what the text with several passes does.

use crate::support::{golden, schedule};
use tile_dsl::{
    dtype::DType,
    engine,
    engine::testing::Random,
    nest::{self, Arithmetic, Nest, interpret},
    tile::{
        ElemType, Kernel,
        evaluate::{Elements, Inputs},
        parse, reference, verify,
    },
};

/// The weights are divided before they are multiplied.
const ATTENTION: &str = "\
kernel attention<T>(q: &[T; M, D], k: &[T; N, D], v: &[T; N, D], o: &mut [T; M, D]) {
    axis i in program_tile(M);
    axis d in whole(D);
    axis e in whole(D);
    axis j in whole(N);
    let s = dot(load(q, [i, d]), load(k, [j, d]), full::<f32>(0.0, [i, j])) * 0.3;
    let m = max(s, j);
    let p = exp(s - m);
    let l = sum(p, j);
    let acc = dot((p / l).cast::<T>(), load(v, [j, e]), full::<f32>(0.0, [i, e]));
    store(o, [i, e], acc.cast::<T>());
}";

/// Each row ends where a number says; the weights are divided behind the product.
const PACKED: &str = "\
kernel packed<T>(q: &[T; M, D], k: &[T; N, D], v: &[T; N, D], len: &[i32; M], o: &mut [f32; M, D]) {
    axis i in program_tile(M);
    axis d in whole(D);
    axis e in whole(D);
    axis j in whole(N).between(iota(i) - 2_i32, load(len, [i]));
    let s = dot(load(q, [i, d]), load(k, [j, d]), full::<f32>(0.0, [i, j]));
    let p = exp2((s - max(s, j)) * 1.442695);
    let acc = dot(p.cast::<T>(), load(v, [j, e]), full::<f32>(0.0, [i, e])) / sum(p, j);
    store(o, [i, e], acc);
}";

/// The row is read once more.
const SOFTMAX: &str = "\
kernel softmax<T>(x: &[T; M, N], y: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis n in whole(N);
    let v = load(x, [i, n]).cast::<f32>();
    let e = exp(v - max(v, n));
    store(y, [i, n], (e / sum(e, n)).cast::<T>());
}";

/// All in the type of the elements: the sum goes on in f32.
const NARROW: &str = "\
kernel narrow<T>(x: &[T; M, N], y: &mut [T; M], t: &mut [T; M]) {
    axis i in program_tile(M);
    axis n in whole(N);
    let v = load(x, [i, n]);
    let m = max(v, n);
    store(y, [i], m + log(sum(exp(v - m), n)));
    store(t, [i], m);
}";

/// The least element, two sums and a square, which follow in their ways; one sum that depends on nothing.
const LEAST: &str = "\
kernel least(x: &[f32; M, N], w: &[f32; N], y: &mut [f32; M], z: &mut [f32; M], t: &mut [f32; M]) {
    axis i in program_tile(M);
    axis n in whole(N);
    let v = load(x, [i, n]);
    let least = min(v, n);
    let p = exp((least - v) * 0.5);
    let l = sum(p, n);
    let inverse = select(l == 0.0, 0.0, 1.0 / l);
    let total = sum(v, n);
    let squares = sum(p * -p * load(w, [n]) * inverse, n);
    store(y, [i], l);
    store(z, [i], squares);
    store(t, [i], total - least);
}";

/// Two maxima, of which one sum knows both, after a pass of its own.
const TWO: &str = "\
kernel two(a: &[f32; M, N], b: &[f32; M, N], y: &mut [f32; M], c: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis n in whole(N);
    let u = load(a, [i, n]) / (1.0 + abs(sum(load(a, [i, n]), n)));
    let w = load(b, [i, n]);
    store(c, [i, n], u * 2.0);
    let first = max(u, n);
    let second = max(w, n);
    let both = sum(exp(u + w - first - second), n);
    let one = sum(exp(u - first), n);
    store(y, [i], both / one);
}";

/// Loops that only accumulate, over axes of the same points, and a loop that stores.
const LOOPS: &str = "\
kernel loops(x: &[f32; M, N], w: &[f32; N, D], to: &[i32; M], o: &mut [f32; M, D], y: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis e in whole(D);
    axis n in tiles(N).below(load(to, [i]));
    axis k in tiles(N).below(load(to, [i]));
    axis h in tiles(N);
    let mut m = full::<f32>(-inf, [i]);
    let mut l = full::<f32>(0.0, [i]);
    let mut acc = full::<f32>(0.0, [i, e]);
    for n {
        let v = load(x, [i, n]) * 0.5;
        m = max(m, max(v, n));
    }
    for k {
        let p = exp(load(x, [i, k]) * 0.5 - m);
        l = l + sum(p, k);
        acc = dot(p, load(w, [k, e]), acc);
    }
    store(o, [i, e], acc / l);
    for h {
        store(y, [i, h], exp(load(x, [i, h]) * 0.5 - m));
    }
}";

/// The greatest element's first place, how often it is there, and a sum beside them.
const PLACES: &str = "\
kernel places(x: &[f32; M, N], to: &[i32; M], y: &mut [i32; M], z: &mut [f32; M], t: &mut [f32; M]) {
    axis i in program_tile(M);
    axis n in whole(N).below(load(to, [i]));
    let v = load(x, [i, n]);
    let m = max(v, n);
    let at = min(select(v == m, iota(n), 2147483647_i32), n);
    let first = min(select(or(v == m, not(v == v)), iota(n), 2147483647_i32), n);
    let hit = select(m == v, 1.0_f32, 0.0_f32);
    let count = sum(hit, n);
    let l = sum(exp(v - m), n);
    store(y, [i], at);
    store(z, [i], count + first.cast::<f32>());
    store(t, [i], l);
}";

/// As integers of the same order; nothing follows by a power.
const ORDER: &str = "\
kernel order(x: &[f32; M, N], w: &[f32; M, N], y: &mut [i32; M], z: &mut [f32; M]) {
    axis i in program_tile(M);
    axis n in whole(N);
    let v = order(load(x, [i, n]));
    let least = min(v, n);
    store(z, [i], max(select(least == v, load(w, [i, n]), -inf_f32), n));
    store(y, [i], least);
}";

/// The squares from the mean, and from another number; what the row is scaled to.
const NORM: &str = "\
kernel norm<T>(x: &[T; M, N], y: &mut [T; M, N], z: &mut [f32; M]) {
    axis i in program_tile(M);
    axis n in whole(N);
    let v = load(x, [i, n]).cast::<f32>();
    let count = dim(N).cast::<f32>();
    let mean = sum(v, n) / count;
    let d = v - mean;
    let variance = sum(d * d, n) / count;
    let other = sum((mean * 3.0_f32 - v) * (mean * 3.0_f32 - v), n);
    store(y, [i, n], (d * rsqrt(variance + 0.001_f32)).cast::<T>());
    store(z, [i], other);
}";

/// Of as many points as a number says.
const SPREAD: &str = "\
kernel spread(x: &[f32; M, N], to: &[i32; M], z: &mut [f32; M]) {
    axis i in program_tile(M);
    axis n in whole(N).between(1_i32, load(to, [i]));
    let v = load(x, [i, n]);
    let mean = sum(v, n) / 3.0_f32;
    store(z, [i], sum((v - mean) * (v - mean), n));
}";

/// What depends on the maximum alone is read in the loop and behind it, and a product adds up in 16 bits.
const NEGATED: &str = "\
kernel negated<T>(x: &[T; M, N], w: &[T; N, D], y: &mut [T; M, D], t: &mut [f32; M]) {
    axis i in program_tile(M);
    axis e in whole(D);
    axis n in whole(N);
    let v = load(x, [i, n]).cast::<f32>() * 2.0_f32;
    let low = -max(v, n);
    let p = exp(v + low);
    let acc = dot(p.cast::<T>(), load(w, [n, e]), full::<T>(0.0, [i, e]));
    store(t, [i], low);
    store(y, [i, e], acc);
}";

const TEXTS: [(&str, &str); 12] = [
    (NEGATED, "n"),
    (NORM, "n"),
    (SPREAD, "n"),
    (PLACES, "n"),
    (ORDER, "n"),
    (LOOPS, "n"),
    (ATTENTION, "j"),
    (PACKED, "j"),
    (SOFTMAX, "n"),
    (NARROW, "n"),
    (LEAST, "n"),
    (TWO, "n"),
];

fn kernel(text: &str, dtype: DType) -> Kernel {
    let mut kernel = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(verify(&kernel), [], "{text}");
    kernel.apply_limits();
    let dtype = kernel.generic.as_ref().map(|_| dtype);
    kernel.instantiate(dtype)
}

/// The nest after `online(axis = size)` alone.
fn online(kernel: &Kernel, axis: &str, size: u32) -> Nest {
    let first = nest::initial(kernel).unwrap();
    let directive = &schedule(&format!("online({axis} = {size})")).directives[0];
    let (nest, _) = engine::apply(directive, &first)
        .unwrap_or_else(|wrong| panic!("{}: {}\n{kernel}", kernel.name, wrong.diagnostic.message));
    assert_eq!(nest.source(), kernel);
    assert_eq!(nest::verify(&nest), [] as [String; 0], "{nest}");
    nest
}

/// Rows of many kinds: small numbers, growing and falling ones, −∞ in part and as a whole, NaN, ∞.
fn row(kind: usize, n: usize, random: &mut dyn FnMut() -> f64) -> f64 {
    match kind % 9 {
        1 => n as f64 * 700.0,
        2 => n as f64 * -700.0,
        3 if n % 3 < 2 => f64::NEG_INFINITY,
        4 if n < 5 => f64::NEG_INFINITY,
        5 => f64::NEG_INFINITY,
        6 if n == 3 => f64::NAN,
        7 if n == 2 => f64::INFINITY,
        8 if n > 1 => f64::NEG_INFINITY,
        _ => random(),
    }
}

fn inputs(kernel: &Kernel, dims: &[(&str, i64)], special: bool) -> Inputs {
    let mut random = Random::new(11);
    let mut uniform = move || (random.next() % 20_001) as f64 / 5_000.0 - 2.0;
    let dims = dims.iter().map(|(name, n)| (name.to_string(), *n)).collect();
    let mut inputs = Inputs { dims, ..Inputs::default() };
    for tensor in &kernel.tensors {
        let shape: Vec<i64> = tensor.dims.iter().map(|d| d.eval(&inputs.dims).unwrap()).collect();
        let ElemType::Fixed(elem) = tensor.elem else { unreachable!("it is instantiated") };
        let width = *shape.last().unwrap() as usize;
        let value = |at: usize| match (elem, special && shape.len() == 2) {
            (DType::I32, _) => (at * 5 % 17) as f64,
            (_, true) if width > 0 => row(at / width, at % width, &mut uniform),
            _ => uniform(),
        };
        let elements = (0..shape.iter().product::<i64>() as usize).map(value);
        inputs.tensors.insert(tensor.name.clone(), Elements::from_f64(elem, elements));
    }
    inputs
}

/// Numbers that are the same but for the last bits of f64.
fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-30)
}

/// Compares all executors of one text with what the text with several passes is in f64.
fn agree(text: &str, axis: &str, dtype: DType, dims: &[(&str, i64)], special: bool) {
    let kernel = kernel(text, dtype);
    let given = inputs(&kernel, dims, special);
    let plain = reference(&kernel, &given).unwrap();
    for size in [1, 3, 4, 64] {
        let nest = online(&kernel, axis, size);
        let what = format!("{} {dtype} {dims:?} in tiles of {size}\n{}", kernel.name, nest.kernel);
        let tiled = Inputs { tiles: nest.tiles(), ..given.clone() };
        let exact = tile_dsl::tile::evaluate(&nest.kernel, &tiled).unwrap();
        let derived = reference(&nest.kernel, &tiled).unwrap();
        let run = interpret(&nest, &given, Arithmetic::Exact, 1).unwrap();
        for (name, expected) in &plain {
            for (n, (a, b)) in expected.values.iter().zip(&derived[name].values).enumerate() {
                assert!(same(*a, *b), "{name}[{n}] is {b} instead of {a}: {what}");
            }
            let found = Elements::from_f64(expected.dtype, run[name].clone());
            for found in [&exact[name], &found] {
                let compared = expected.compare(found, 1.0);
                assert!(compared.verified(), "{name} is off {}: {what}", compared.error_bound_ratio);
            }
        }
    }
}

#[test]
fn one_pass_computes_what_several_do() {
    for (text, axis) in TEXTS {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for n in [0, 1, 3, 4, 5, 17] {
                agree(text, axis, dtype, &[("M", 5), ("N", n), ("D", 3)], false);
            }
        }
    }
}

#[test]
fn rows_without_numbers_are_what_the_text_says() {
    for (text, axis) in TEXTS {
        for dtype in [DType::F32, DType::F16] {
            for n in [0, 1, 2, 7, 16, 17] {
                agree(text, axis, dtype, &[("M", 9), ("N", n), ("D", 1)], true);
            }
        }
    }
}

/// Squares from a mean that is far from zero: those from zero would lose all of them.
#[test]
fn deviations_far_from_zero_are_exact() {
    let kernel = kernel(SPREAD, DType::F32);
    let mut given = inputs(&kernel, &[("M", 2), ("N", 40)], false);
    let far = (0..80).map(|n| 10_000.0 + f64::from(n * 37 % 11) / 8.0);
    given.tensors.insert("x".into(), Elements::from_f64(DType::F32, far));
    given.tensors.insert("to".into(), Elements::from_f64(DType::I32, [4.0, 4.0]));
    let nest = online(&kernel, "n", 2);
    let run = interpret(&nest, &given, Arithmetic::Exact, 1).unwrap();
    for (found, exact) in run["z"].iter().zip(&reference(&kernel, &given).unwrap()["z"].values) {
        assert!((found - exact).abs() < 1e-3 * exact, "{found} instead of {exact}");
    }
}

/// A second directive for the axis of the second pass.
#[test]
fn two_axes_have_a_loop_each() {
    let text = "\
kernel twice(x: &[f32; M, N], y: &mut [f32; M]) {
    axis i in program_tile(M);
    axis n in whole(N);
    axis k in whole(N);
    let v = load(x, [i, n]);
    let w = load(x, [i, k]) * 0.5;
    let m = max(v, n);
    let l = sum(exp(v - m), n);
    let t = max(w, k);
    store(y, [i], l + sum(exp(w - t), k));
}";
    let kernel = kernel(text, DType::F32);
    let given = inputs(&kernel, &[("M", 5), ("N", 17)], false);
    let mut nest = nest::initial(&kernel).unwrap();
    for directive in &schedule("online(n = 4); online(k = 3)").directives {
        nest = engine::apply(directive, &nest).unwrap_or_else(|f| panic!("{}", f.diagnostic.message)).0;
    }
    assert_eq!(nest.source(), &kernel);
    assert_eq!(nest.tiles(), [("n".to_string(), 4), ("k".to_string(), 3)].into());
    let run = interpret(&nest, &given, Arithmetic::Exact, 1).unwrap();
    let found = Elements::from_f64(DType::F32, run["y"].clone());
    assert!(reference(&kernel, &given).unwrap()["y"].compare(&found, 1.0).verified());
}

/// The texts, as `--emit tile` prints them.
#[test]
fn the_text_with_the_loop() {
    let texts = TEXTS.map(|(text, axis)| online(&kernel(text, DType::F16), axis, 64).kernel.to_string());
    texts.iter().for_each(|text| assert_eq!(parse(text).unwrap().to_string(), *text));
    golden("online.txt", &texts.join("\n"));
}
