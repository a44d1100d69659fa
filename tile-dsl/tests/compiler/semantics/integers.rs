//! Two's complement, division by zero, offsets and indices beyond 32 bits.

use super::{Case, ELEMENTWISE, same, support};
use tile_dsl::{
    engine,
    lower::{assumptions, lower},
    program::Variant,
};

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
    // No size has a whole tile in range.
    for index in ["2000000000*i", "1073741824*i + 3", "-1073741823*i"] {
        let kernel = support::kernel(&kernel.replace("INDEX", index));
        let refused = engine::schedule(&kernel, &support::schedule(thread), None).unwrap_err();
        assert!(refused[0].message.contains("no launch could use this schedule"), "{refused:?}");
        assert!(engine::schedule(&kernel, &support::schedule("tile(i = 1)"), None).is_ok());
    }
    for (index, most) in [
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
