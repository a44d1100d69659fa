//! Factors of atoms that lanes compute: results of another atom, of functions, of comparisons; as either operand, beyond the
//! ends of tiles too.

use tile_fuzz::{case::Case, check::check};

/// Sizes around those of tiles: exact ones, tails, one, none.
const LAUNCHES: &str = "launch M = 33, N = 17, K = 40, E = 9; data 1
launch M = 32, N = 32, K = 32, E = 32; data 2
launch M = 1, N = 1, K = 1, E = 1; data 3
launch M = 5, N = 0, K = 7, E = 8; data 4
launch M = 5, N = 7, K = 0, E = 8; data 5
launch M = 31, N = 65, K = 16, E = 16; data 6
launch M = 40, N = 24, K = 33, E = 12; data 7 special
";

fn verified(kernel: &str, schedule: &str) {
    let text = format!("{kernel}schedule sm_80 {{\n{schedule}\n}}\n{LAUNCHES}");
    // The check silences panics: what failed is printed first.
    let failed = |what: &str| -> ! {
        eprintln!("{what}\n{text}");
        panic!("{what}");
    };
    let case = Case::parse(&text).unwrap_or_else(|e| failed(&e.to_string()));
    let (done, failure) = check(&case, usize::MAX);
    if let Some(failure) = failure {
        failed(&failure.to_string());
    }
    if done.launches < 12 {
        failed(&format!("{} launches", done.launches));
    }
}

/// `(f(a·b))·v` and, with the factors of each product in other orders and layouts, its transpose.
fn chain(function: &str, factors: [&str; 2], first: [&str; 2]) -> String {
    format!(
        "kernel k(a: &[f16; M, K], b: &[f16; N, K], v: &[f16; N, E], o: &mut [f32; M, E]) {{
    axis i in program_tile(M);
    axis d in whole(K);
    axis e in whole(E);
    axis j in tiles(N);
    let mut acc = full::<f32>(0.0, [i, e]);
    for j {{
        let s = dot({}, {}, full::<f32>(0.0, [i, j]));
        let p = {function};
        acc = dot({}, {}, acc);
    }}
    store(o, [i, e], acc);
}}
",
        first[0], first[1], factors[0], factors[1]
    )
}

const Q: [&str; 2] = ["load(a, [i, d])", "load(b, [j, d])"];
const P: &str = "p.cast::<f16>()";
const V: &str = "load(v, [j, e])";
const CHAIN: &str = "fits(K <= 64); fits(E <= 32); tile(i = 32); tile(j = 32);
stage(a at i: shared); stage(b at j: shared); stage(v at j: shared); pad(a: 16); pad(b: 16); pad(v: 16);";

#[test]
fn a_product_of_a_product() {
    for function in ["s", "exp(s * 0.125)", "select(s < 0.5, s, 2.0 * s)"] {
        for directives in [
            "tensor_core(s: mma); tensor_core(acc: mma);",
            "tensor_core(acc: mma); tensor_core(s: mma);",
            "tensor_core(s: mma); tensor_core(acc: mma); pipeline(j, 2);",
            "split(i -> iw, im: 16); tensor_core(s: mma); tensor_core(acc: mma); bind(iw -> warp.x);",
            "tensor_core(s: mma); tensor_core(acc: mma); fragment(b at d.atom); pipeline(d.atom, 2); fragment(v at j.acc); pipeline(j.acc, 2);",
        ] {
            let schedule = format!("{CHAIN}\n{directives}");
            // `s` itself is a reduction: its value is called after the variable.
            verified(&chain(function, [P, V], Q), &schedule);
        }
    }
}

#[test]
fn either_operand_of_either_product() {
    let both = "tensor_core(s: mma); tensor_core(acc: mma);";
    for factors in [[P, V], [V, P]] {
        for first in [Q, [Q[1], Q[0]]] {
            verified(&chain("s * 0.5", factors, first), &format!("{CHAIN}\n{both}"));
        }
    }
}

/// Rows of the one that is computed are columns of the result.
#[test]
fn the_second_operand_is_computed() {
    let kernel = "kernel k(a: &[f16; M, K], b: &[f16; N, K], v: &[f16; E, M], o: &mut [f32; E, N]) {
    axis e in program_tile(E);
    axis j in program_tile(N);
    axis d in whole(K);
    axis i in tiles(M);
    let mut acc = full::<f32>(0.0, [e, j]);
    for i {
        let s = dot(load(a, [i, d]), load(b, [j, d]), full::<f32>(0.0, [j, i]));
        acc = dot(load(v, [e, i]), s.cast::<f16>(), acc);
    }
    store(o, [e, j], acc);
}
";
    let schedule = "fits(K <= 64); tile(e = 32); tile(j = 32); tile(i = 16);
tensor_core(s: mma); tensor_core(acc: mma);
stage(a at i: shared); stage(b at j: shared); stage(v at i: shared); pad(a: 16); pad(b: 16); pad(v: 16);";
    verified(kernel, schedule);
}

#[test]
fn factors_computed_from_tensors() {
    let kernel = |x: &str, y: &str| {
        format!(
            "kernel k(a: &[f16; M, K], w: &[f32; K, N], g: &[f32; K], c: &mut [f32; M, N]) {{
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {{
        acc = dot({x}, {y}, acc);
    }}
    store(c, [i, j], acc);
}}
"
        )
    };
    let (a, w) = ("load(a, [i, k])", "load(w, [k, j]).cast::<f16>()");
    let scaled = "(load(a, [i, k]).cast::<f32>() * load(g, [k])).cast::<f16>()";
    let unbounded = "(1.0 / load(w, [k, j])).cast::<f16>()";
    let tiles = "tile(i = 32); tile(j = 16); tile(k = 32); tensor_core(acc: mma);";
    for (x, y, stages) in [
        (a, w, "stage(a at k: shared); pad(a: 16);"),
        (w, a, "stage(a at k: shared); pad(a: 16); stage(w at k: shared); pipeline(k, 2);"),
        (scaled, w, ""),
        (scaled, w, "stage(a at k: shared); stage(w at k: shared);"),
        (a, unbounded, "stage(a at k: shared); pad(a: 16);"),
        ("exp(load(a, [i, k]).cast::<f32>()).cast::<f16>()", unbounded, ""),
    ] {
        verified(&kernel(x, y), &format!("{tiles}\n{stages}"));
    }
}

/// What operands are computed from lies as they do, in lanes and registers, where the schedule says nothing else.
#[test]
fn values_that_operands_are_computed_from() {
    let kernel = |lets: &str, x: &str, y: &str| {
        format!(
            "kernel k(a: &[bf16; M, K], b: &[bf16; K, N], g: &[bf16; K], c: &mut [f32; M, N]) {{
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {{
        {lets}
        acc = dot({x}, {y}, acc);
    }}
    store(c, [i, j], acc);
}}
"
        )
    };
    let (a, b) = ("load(a, [i, k])", "load(b, [k, j])");
    let tiles = "tile(i = 32); tile(j = 16); tile(k = 32); tensor_core(acc: mma); pad(a: 16); pad(b: 16);";
    for (lets, x, y) in [
        ("let v = load(a, [i, k]) * load(g, [k]);", "v", b),
        ("let v = load(b, [k, j]) * load(g, [k]);", a, "v"),
        ("let v = load(b, [k, j]) * load(g, [k]);", "v", a),
        ("let v = load(a, [i, k]).cast::<f32>(); let w = exp(v * 0.1);", "w.cast::<bf16>()", b),
        ("let v = load(a, [i, k]) * load(g, [k]); let w = load(b, [k, j]) * load(g, [k]);", "v", "w"),
    ] {
        let stages: String = [("a", a), ("b", b)]
            .iter()
            .filter(|(_, load)| x == *load || y == *load)
            .map(|(name, _)| format!("stage({name} at k: shared);"))
            .collect();
        let pads: String = ["a", "b"]
            .iter()
            .filter(|n| !stages.contains(&format!("stage({n}")))
            .fold(tiles.to_string(), |text, n| text.replace(&format!("pad({n}: 16);"), ""));
        verified(&kernel(lets, x, y), &format!("{pads}\n{stages}"));
    }
}
