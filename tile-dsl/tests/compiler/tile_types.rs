//! The tile IR as text: printing, reading back, instantiation and the typing rules.

use tile_dsl::{
    dtype::DType,
    span::SpanId,
    tile::{parse, verify},
};

const MATMUL: &str = "\
kernel matmul<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}
";

const SOFTMAX: &str = "\
kernel softmax(x: &[f32; R, N], y: &mut [f32; R, N], alpha: f32) {
    axis r in program_tile(R);
    axis n in whole(N);
    let v = load(x, [r, n]) * alpha;
    let e = exp(v - max(v, n));
    let masked = select(iota(n) <= iota(r), e, -0.5);
    store(y, [r, n], (masked / sum(e, n) + 2.0 * -(1.0)) * (-e).cast::<f32>());
}
";

const CONV: &str = "\
kernel conv1d(x: &[f32; 2*N + 1], w: &[f32; 3], y: &mut [f32; N]) {
    axis i in program_tile(N);
    axis r in whole(3);
    store(y, [i], sum(load(x, [2*i + r - 1]) * load(w, [r]), r));
}
";

#[test]
fn text_round_trips() {
    let tf32 = MATMUL.replace(", acc);", ", acc, tf32);");
    for text in [MATMUL, SOFTMAX, CONV, &tf32] {
        let kernel = parse(text).unwrap();
        assert_eq!(kernel.to_string(), text);
        assert_eq!(verify(&kernel), []);
        for dtype in [DType::F32, DType::F16] {
            let instance = kernel.instantiate(kernel.generic.is_some().then_some(dtype));
            assert_eq!(verify(&instance), []);
            assert_eq!(parse(&instance.to_string()).unwrap(), instance);
        }
    }
}

/// A precision is what each factor is rounded to, and one factor may be rounded by itself.
#[test]
fn a_precision_of_dot_rounds_both_factors() {
    let both =
        MATMUL.replace("load(a, [i, k]), load(b, [k, j])", "tf32(load(a, [i, k])), tf32(load(b, [k, j]))");
    let word = MATMUL.replace(", acc);", ", acc, tf32);");
    assert_eq!(parse(&both).unwrap(), parse(&word).unwrap());
    let one = MATMUL.replace("load(b, [k, j])", "tf32(load(b, [k, j]))");
    assert_eq!(parse(&one).unwrap().to_string(), one);
    assert!(parse(&MATMUL.replace(", acc);", ", acc, tf16);")).is_err());
}

#[test]
fn instantiation_types_every_literal() {
    let text = parse(SOFTMAX).unwrap().instantiate(None).to_string();
    assert!(text.contains("select(iota(n) <= iota(r), e, -0.5_f32)"), "{text}");
    assert!(text.contains("2.0_f32 * -(1.0_f32)"), "{text}");
    let generic = MATMUL.replace("acc.cast::<T>()", "acc.cast::<T>() + 0.5");
    let text = parse(&generic).unwrap().instantiate(Some(DType::BF16)).to_string();
    assert!(text.contains("store(c, [i, j], acc.cast::<bf16>() + 0.5_bf16)"), "{text}");
    assert!(text.starts_with("kernel matmul(a: &[bf16; M, K]"), "{text}");
}

#[test]
fn values_have_axes_and_element_types() {
    let kernel = parse(SOFTMAX).unwrap().instantiate(None);
    let types = kernel.value_types();
    let axes: Vec<usize> = types.iter().map(|t| t.axes.len()).collect();
    assert_eq!(axes, [2, 2, 2]);
    assert!(types.iter().all(|t| t.dtype() == DType::F32));
}

/// The only mistake of a body, message and help; axes i (program), n (whole), k (tiles).
fn mistake(body: &str) -> String {
    let text = format!(
        "kernel t<T>(x: &[f32; M, N], z: &[f32; N, M], h: &[T; M, N], y: &mut [f32; M, N], s: &mut [f32; M], q: i32) {{
            axis i in program_tile(M);
            axis n in whole(N);
            axis k in tiles(N);
            {body}
        }}"
    );
    let errors = verify(&parse(&text).unwrap());
    assert_eq!(errors.len(), 1, "{errors:#?}");
    let added = errors[0].rewrite.as_ref().map(|r| format!("{}..{}", r.before, r.after));
    let rule = errors[0].notes.iter().rev().find(|note| note.span == SpanId::NONE).map(|n| n.text.clone());
    let help = errors[0].help.clone().or(added).or(rule);
    format!("{} ({})", errors[0].message, help.as_deref().unwrap_or("no help"))
}

const STORE_Y: &str = "store(y, [i, n], load(x, [i, n]));";
const STORE_S: &str = "store(s, [i], sum(load(x, [i, n]), n));";

#[test]
fn every_rule_has_its_message() {
    let with = |body: &str| mistake(&format!("{body} {STORE_Y} {STORE_S}"));
    let y = |value: &str| mistake(&format!("store(y, [i, n], {value}); {STORE_S}"));
    let s = |value: &str| mistake(&format!("{STORE_Y} store(s, [i], {value});"));
    let cases = [
        (y("load(x, [n, i])"), "axis `n` ranges over N, but dimension 0 of `x` is M"),
        (y("load(x, [i])"), "`x` has 2 dimensions but the index has 1 entry"),
        (y("load(h, [i, n])"), "`y` holds f32 but a T value is stored (...cast::<f32>())"),
        (y("load(h, [i, n]) + load(x, [i, n])"), "operands of `+` are T and f32"),
        (y("load(x, [i, n]) * iota(n)"), "operands of `*` are f32 and i32 (...cast::<f32>())"),
        (y("exp(iota(n) + iota(i)).cast::<f32>()"), "`exp` of an i32 value (...cast::<f32>())"),
        (y("(iota(n) + iota(i) + 0.5).cast::<f32>()"), "the literal 0.5 is used as an i32"),
        (y("load(x, [i, n]) % 2.0"), "`%` of f32 values"),
        (y("select(load(x, [i, n]), 1.0, 2.0)"), "the condition of `select` is f32, not bool"),
        (y("load(x, [i, n]).cast::<bool>().cast::<f32>()"), "an f32 is not cast to bool"),
        (y("sum(load(x, [i, n]), n)"), "the value stored to `y` has axes [i], its index has axes [i, n]"),
        (
            s("load(x, [i, n])"),
            "has axes [i, n], its index has axes [i] (reduce `n` (`sum(.., n)`), or index `s` by it)",
        ),
        (s("sum(sum(load(x, [i, n]), n), n)"), "`sum` over `n` of a value that does not have it"),
        (y("load(x, [i, n]) - max(load(x, [i, n]), i)"), "`max` over the program axis `i`"),
        (s("sum(iota(n) <= iota(i), n)"), "`sum` over an axis of bool values"),
        (y("load(x, [i, n]) + sum(load(x, [i, k]), k)"), "axis `k` is used outside its loop"),
        (s("dot(load(x, [i, n]), load(x, [i, n]), full::<f32>(0.0, [i, n]))"), "`dot` contracts nothing"),
        (
            s("dot(load(x, [i, n]), sum(load(x, [i, n]), n), full::<f32>(0.0, [i]))"),
            "`dot` contracts `n`, which its second operand does not have",
        ),
        (
            s("dot(load(x, [i, n]), load(z, [n, i]), full::<f32>(0.0, [n]))"),
            "`dot` contracts the program axis `i`",
        ),
        (
            s("dot(load(h, [i, n]), load(x, [i, n]), full::<f32>(0.0, [i]))"),
            "operands of `dot` are T and f32",
        ),
        (
            s("dot(load(x, [i, n]), load(x, [i, n]), full::<f16>(0.0, [i])).cast::<f32>()"),
            "the accumulator of `dot` is f16, its operands are f32 (accumulate in f32",
        ),
        (
            s("dot(load(x, [i, n]), load(x, [i, n]), 0.0)"),
            "the accumulator of `dot` is a number, and its operands have axes [i] that are not contracted (replace `0.0` by `zeros::<f32>([i])`",
        ),
        (
            with("let mut acc = 1.0; for k { acc = dot(load(x, [i, k]), load(x, [i, k]), acc); }"),
            "(replace `1.0` by `full::<f32>(1.0, [i])`",
        ),
        (
            with("let half = 0.5;"),
            "the type of this literal does not follow from its context (replace `0.5` by `0.5f32`",
        ),
        (
            with("let mut acc = full::<f32>(0.0, [i]); for k { acc = acc + load(x, [i, k]); }"),
            "`acc` has axes [i] but is assigned a value with axes [i, k] (`k` would escape its loop",
        ),
        (
            with("let acc = full::<f32>(0.0, [i]); for k { acc = acc + sum(load(x, [i, k]), k); }"),
            "`acc` is assigned but not declared `mut`",
        ),
        (
            with("let mut acc = full::<f16>(0.0, [i]); for k { acc = sum(load(x, [i, k]), k); }"),
            "`acc` holds f16 but is assigned f32",
        ),
        (with("let mut acc = full::<f16>(0.0, [i]); acc = acc + acc;"), "`acc` is assigned outside a loop"),
        (with("for n { let v = load(x, [i, n]); }"), "`n` is not bound by `tiles`"),
        (with("store(z, [n, i], full::<f32>(0.0, [i, n]));"), "`z` is stored to but not `&mut`"),
        (
            with(STORE_Y),
            "`y` is stored twice: i = 0, n = 0 here and i = 0, n = 0 in the first store are both element [0, 0]",
        ),
        (mistake(STORE_Y), "`s` is `&mut` but never stored to"),
        (
            mistake(&format!("{STORE_Y} for k {{ store(s, [i], sum(load(x, [i, k]), k)); }}")),
            "every step of the loop over `k` would overwrite the same elements of `s`",
        ),
        (
            mistake(
                &format!("store(y, [n, n], load(y, [n, n])); {STORE_S}")
                    .replace("n, n", "i, n")
                    .replace("load(y, [i, n])", "load(y, [i, n + 1])"),
            ),
            "`y` is read and written at different indices",
        ),
        (
            mistake("store(y, [i, n], load(y, [i, n]) * 2.0); store(s, [i], sum(load(y, [i, n]), n)); "),
            "this loads from `y`, which was already overwritten here (bind what it held before",
        ),
        (
            y("load(x, [i, 9223372036854775807*n])"),
            "the index of dimension 1 of `x` reaches 9223372036854775807 (indices are 32-bit",
        ),
        (y("load(x, [i, n + 4294967296])"), "the index of dimension 1 of `x` reaches 4294967297"),
        (
            mistake(&format!("store(y, [i, n + 1], load(x, [i, n])); {STORE_S}")),
            "the index of dimension 1 of `y` reaches N, but its extent is N",
        ),
    ];
    for (found, expected) in &cases {
        assert!(found.contains(expected), "expected `{expected}`\n   found `{found}`");
    }
}

#[test]
fn signatures_are_checked() {
    let first = |text: &str| verify(&parse(text).unwrap())[0].message.clone();
    let one = |params: &str, axis: &str, index: &str| {
        first(&format!(
            "kernel t({params}) {{ axis {axis}; store(y, [{index}], full::<f32>(0.0, [{index}])); }}"
        ))
    };
    assert_eq!(one("y: &mut [f32; N], y: f32", "i in program_tile(N)", "i"), "two parameters are named `y`");
    assert_eq!(
        one("y: &mut [f32; N]", "i in program_tile(N); axis i in whole(N)", "i"),
        "two axes are named `i`"
    );
    for (params, axis) in [
        ("y: &mut [f32; 4294967297]", "i in program_tile(4294967297)"),
        ("y: &mut [f32; 4294967297*N]", "i in program_tile(N)"),
        ("y: &mut [f32; N + 2147483647]", "i in program_tile(N)"),
    ] {
        assert!(one(params, axis, "i").ends_with("is not below 2^31 - 2^16"), "{params}");
    }
    assert_eq!(
        one("x: &[f32; N], y: &mut [f32; M + N + P]", "i in program_tile(N)", "i"),
        "the shapes of the tensors do not determine `M`"
    );
}

#[test]
fn bools_are_elements_and_scalars() {
    let kernel = |value: &str| {
        let text = format!(
            "kernel t(x: &[bool; N], y: &mut [bool; N], on: bool) {{
                axis i in program_tile(N);
                store(y, [i], {value});
            }}"
        );
        let kernel = parse(&text).unwrap();
        assert_eq!(parse(&kernel.to_string()).unwrap(), kernel, "{kernel}");
        verify(&kernel).into_iter().map(|d| d.message).collect::<Vec<_>>()
    };
    for value in [
        "load(x, [i])",
        "and(load(x, [i]), on)",
        "or(not(load(x, [i])), false)",
        "load(x, [i + 1]) != on",
        "(load(x, [i]) == true).cast::<bool>()",
        "full::<bool>(true, [i])",
        "select(load(x, [i]), on, true)",
        "load(x, [i]).cast::<f32>() > 0.5",
    ] {
        assert_eq!(kernel(value), [""; 0], "{value}");
    }
    for (value, message) in [
        ("load(x, [i]) >= on", "`>=` of bool values"),
        ("load(x, [i]) == 1.0", "the literal 1 is used as a bool"),
        ("full::<bool>(2.0, [i])", "the literal 2 is used as a bool"),
        ("load(x, [i]).cast::<i32>()", "`y` holds bool but an i32 value is stored"),
        ("max(load(x, [i]), on)", "`max` of bool values"),
    ] {
        assert_eq!(kernel(value), [message], "{value}");
    }
}

#[test]
fn strided_stores_are_injective_when_they_cannot_collide() {
    let store = |index: &str, extent: u32| {
        let text = format!(
            "kernel t(y: &mut [f32; 4*N]) {{
                axis i in program_tile(N);
                axis r in whole({extent});
                store(y, [{index}], full::<f32>(0.0, [i, r]));
            }}"
        );
        verify(&parse(&text).unwrap()).into_iter().map(|d| d.message).collect::<Vec<_>>()
    };
    assert!(store("2*i + r", 2).is_empty());
    assert_eq!(store("2*i + r", 3), ["several points of [i, r] may be stored to the same element of `y`"]);
    assert_eq!(store("i + r", 2).len(), 1);
}

#[test]
fn several_stores_to_one_tensor_never_meet() {
    let stores = |extents: &str, a: &str, b: &str| {
        let axes = |index: &str| {
            let names = ["i", "j", "r", "q"];
            names.into_iter().filter(|n| index.contains(n)).collect::<Vec<_>>().join(", ")
        };
        let text = format!(
            "kernel t(y: &mut [f32; {extents}]) {{
                axis i in program_tile(N);
                axis r in whole(2);
                axis q in whole(3);
                store(y, [{a}], full::<f32>(0.0, [{}]));
                store(y, [{b}], full::<f32>(1.0, [{}]));
            }}",
            axes(a),
            axes(b)
        );
        let errors = verify(&parse(&text).unwrap());
        errors.into_iter().map(|d| d.message).collect::<Vec<_>>()
    };
    for (extents, a, b) in [
        ("2*N", "2*i", "2*i + 1"),
        ("3*N + 2", "3*i", "3*i + 4"),
        ("4*N", "4*i + r", "4*i + r + 2"),
        ("6*N", "6*i + 2*q", "6*i + 2*q + 1"),
        ("2, N", "0, i", "1, i"),
        ("N, 5", "i, r", "i, q + 2"),
        ("12*N", "12*i + 3*r", "12*i + 3*q + 1"),
    ] {
        assert_eq!(stores(extents, a, b), [""; 0], "{a} and {b}");
    }
    for (extents, a, b, example) in [
        ("2*N", "2*i", "i", "i = 0 here and i = 0 in the first store are both element [0]"),
        ("N + 1", "i", "i + 1", "i = 0 here and i = 1 in the first store are both element [1]"),
        (
            "4*N",
            "4*i + r",
            "4*i + r + 1",
            "i = 0, r = 0 here and i = 0, r = 1 in the first store are both element [1]",
        ),
        (
            "6*N + 3",
            "6*i + 3*r",
            "6*i + 2*q + 1",
            "i = 0, q = 1 here and i = 0, r = 1 in the first store are both element [3]",
        ),
        (
            "N, 5",
            "i, r",
            "i, q",
            "i = 0, q = 0 here and i = 0, r = 0 in the first store are both element [0, 0]",
        ),
        ("2, N", "1, i", "1, i", "i = 0 here and i = 0 in the first store are both element [1, 0]"),
    ] {
        assert_eq!(stores(extents, a, b), [format!("`y` is stored twice: {example}")], "{a} and {b}");
    }
}
