//! Buffers that lie in the same bytes of shared memory: who shares, what it costs, and that a wrong turn is found.

use super::{
    agree::{self, SMALL, check, programs},
    build::{self, Kernels, VARIANTS},
    support,
};
use tile_dsl::{
    dtype::DType,
    engine,
    kernel::{
        Kernel, Stmt,
        interpret::{Launch, interpret},
        parse::parse,
        verify::verify,
    },
    lower::lower,
    program::{Program, Variant},
};

/// Two products, one after the other.
const TWICE: &str = include_str!("../../support/twice.txt");

/// Two products in each step of a loop.
const AGAIN: &str = "\
kernel again(a: &[f32; M, K], b: &[f32; S, K], d: &[f32; M, L], e: &[f32; S, L], c: &mut [f32; M]) {
    axis i in program_tile(M);
    axis s in tiles(S);
    axis k in tiles(K);
    axis l in tiles(L);
    let mut t = full::<f32>(0.0, [i]);
    for s {
        let mut p = full::<f32>(0.0, [i, s]);
        for k {
            p = dot(load(a, [i, k]), load(b, [s, k]), p);
        }
        let mut q = full::<f32>(1.0, [i, s]);
        for l {
            q = dot(load(d, [i, l]), load(e, [s, l]), q);
        }
        t = sum(p, s) - t;
        t = sum(q, s) - t;
    }
    store(c, [i], t);
}";

const TWICE_BASE: &str = "tile(i = 16, j = 16, k = 32, l = 32); bind(i -> thread.y); ";
const AGAIN_BASE: &str = "tile(i = 32, s = 16, k = 32, l = 32); bind(i -> thread.x); ";

fn twice(text: &str) -> Vec<Program> {
    let whole = if text.contains("split(j") { "" } else { "bind(j -> thread.x); " };
    programs(TWICE, &support::schedule(&format!("{TWICE_BASE}{whole}{text}")))
}

fn again(text: &str) -> Vec<Program> {
    programs(AGAIN, &support::schedule(&format!("{AGAIN_BASE}{text}")))
}

/// Pairs of buffers that share bytes, by name.
fn pairs(kernel: &Kernel) -> Vec<String> {
    let name = |n: usize| kernel.shared[n].name.as_str();
    let of = kernel.rivals();
    let pairs = of.iter().enumerate().flat_map(|(a, all)| all.iter().map(move |b| (a, *b as usize)));
    pairs.filter(|(a, b)| a < b).map(|(a, b)| format!("{}/{}", name(a), name(b))).collect()
}

/// Barriers, by how many loops at run time are around them.
fn barriers(stmts: &[Stmt], depth: usize, out: &mut Vec<usize>) {
    for stmt in stmts {
        match stmt {
            Stmt::Barrier => {
                out.resize(out.len().max(depth + 1), 0);
                out[depth] += 1;
            }
            Stmt::For { body, .. } => barriers(body, depth + 1, out),
            Stmt::If { then, otherwise, .. } => {
                barriers(then, depth, out);
                barriers(otherwise, depth, out);
            }
            _ => {}
        }
    }
}

fn barriers_by_depth(kernel: &Kernel) -> Vec<usize> {
    let mut out = Vec::new();
    barriers(&kernel.body, 0, &mut out);
    out
}

fn launch(program: &Program, dims: &[(&str, i64)]) -> Launch {
    let dims = build::dims(dims);
    let tensors = program.nest.kernel.tensors.iter().map(|t| {
        let len: i64 = t.dims.iter().map(|d| d.eval(&dims).unwrap()).product();
        (t.name.clone(), build::data(3, len as usize))
    });
    Launch { dims: dims.clone(), tensors: tensors.collect(), ..Launch::default() }
}

/// The engine explains the bytes that the kernel takes, in all variants.
fn agrees(program: &Program) {
    for variant in VARIANTS {
        let kernel = lower(program, variant).unwrap();
        assert_eq!(engine::shared_bytes(&program.nest), kernel.shared_bytes(), "{}\n{kernel}", program.nest);
        let again = parse(&kernel.to_string()).unwrap();
        assert_eq!(again.to_string(), kernel.to_string());
    }
}

/// Removes the `n`-th barrier that stands right before a life; false if there are fewer.
fn without(stmts: &mut Vec<Stmt>, n: &mut usize) -> bool {
    for at in 0..stmts.len() {
        let inside = match &mut stmts[at] {
            Stmt::For { body, .. } => without(body, n),
            Stmt::If { then, otherwise, .. } => without(then, n) || without(otherwise, n),
            _ => false,
        };
        if inside {
            return true;
        }
        if at > 0 && matches!(stmts[at], Stmt::Live(_)) && stmts[at - 1] == Stmt::Barrier {
            if *n == 0 {
                stmts.remove(at - 1);
                return true;
            }
            *n -= 1;
        }
    }
    false
}

/// Without any one of the barriers between two lives the verifier objects. How many there are, and of how many the
/// interpreter finds a race without them: where no thread reads the bytes that come next, there is none.
fn each_counts(program: &Program, dims: &[(&str, i64)]) -> (usize, usize) {
    let kernel = lower(program, Variant::General).unwrap();
    let launch = launch(program, dims);
    interpret(&kernel, &mut launch.clone()).unwrap();
    let (mut found, mut races) = (0, 0);
    loop {
        let mut broken = kernel.clone();
        if !without(&mut broken.body, &mut found.clone()) {
            return (found, races);
        }
        let fault = verify(&broken).expect_err("lives meet").what;
        assert!(fault.ends_with("begins before all threads have left its bytes"), "{fault}");
        races += usize::from(interpret(&broken, &mut launch.clone()).is_err());
        found += 1;
    }
}

#[test]
fn products_in_sequence_share_bytes() {
    let sizes: [[i64; 4]; 7] = [
        [33, 17, 40, 70],
        [16, 16, 32, 32],
        [1, 1, 1, 1],
        [17, 15, 0, 33],
        [17, 15, 33, 0],
        [15, 16, 0, 0],
        [16, 32, 64, 96],
    ];
    for (text, shared) in [
        ("stage(a, b at k: shared); stage(d, e at l: shared)", "a/d b/e"),
        ("stage(a, b at k: shared); stage(d, e at l: shared); pipeline(k, 2); pipeline(l, 3)", "a/d b/e"),
        (
            "stage(a, b at k: shared, cp_async, vector(8)); stage(d, e at l: shared, cp_async, vector(8)); \
             pipeline(k, 3); pipeline(l, 2)",
            "",
        ),
        (
            "stage(a at k: shared, cp_async, vector(8)); stage(b at k: shared); pipeline(k, 4); stage(p: shared); \
             stage(d at l: shared); pipeline(l, 2)",
            "",
        ),
        ("stage(a, b at k: shared); stage(d, e at l: shared); stage(p, q: shared)", ""),
        (
            "split(j -> jo, ji: 4); bind(jo -> thread.x); reorder(k, ji); stage(a, b at k: shared); \
             stage(d, e at l: shared); fragment(a, b at k.t); pipeline(k, 2); pipeline(k.t, 2); pipeline(l, 3)",
            "",
        ),
    ] {
        for program in twice(text) {
            let kernels = Kernels::of(&program);
            agrees(&program);
            let kernel = lower(&program, Variant::Exact).unwrap();
            let found = pairs(&kernel);
            assert!(!found.is_empty(), "nothing is shared: {text}\n{kernel}");
            if !shared.is_empty() && program.dtype == Some(DType::F32) {
                assert_eq!(found.join(" "), shared, "{text}");
            }
            // The element type changes widths only.
            let count = if program.dtype == Some(DType::F32) { sizes.len() } else { 1 };
            for [m, n, k, l] in sizes.into_iter().take(count) {
                check(&program, &kernels, &[("M", m), ("N", n), ("K", k), ("L", l)]);
            }
            // A loop that copies in each step ends with a barrier anyway.
            let (met, _) = each_counts(&program, &[("M", 17), ("N", 16), ("K", 70), ("L", 100)]);
            assert_eq!(met != 0, text.contains("pipeline(k"), "{text}: {met}");
        }
    }
}

#[test]
fn a_loop_around_both_meets_at_its_back_edge() {
    let text = "stage(a, b at k: shared); stage(d, e at l: shared); pipeline(k, 2); pipeline(l, 2)";
    for program in again(text) {
        let kernel = lower(&program, Variant::Exact).unwrap();
        assert!(!pairs(&kernel).is_empty(), "{kernel}");
        agrees(&program);
        let kernels = Kernels::of(&program);
        for [m, s, k, l] in
            [[33, 40, 70, 70], [32, 16, 32, 32], [1, 1, 1, 1], [31, 17, 0, 33], [31, 17, 33, 0], [5, 0, 3, 3]]
        {
            check(&program, &kernels, &[("M", m), ("S", s), ("K", k), ("L", l)]);
        }
        // At the back edge they meet as it is.
        assert_eq!(each_counts(&program, &[("M", 33), ("S", 48), ("K", 70), ("L", 70)]), (1, 1));
    }
}

/// A barrier more in the innermost loop costs more than the bytes are worth.
#[test]
fn nothing_is_shared_inside_the_innermost_loop() {
    for program in again("stage(b at s: shared); fits(K <= 64); fits(L <= 64); stage(e at s: shared)") {
        let kernel = lower(&program, Variant::Exact).unwrap();
        assert_eq!(pairs(&kernel), Vec::<String>::new(), "{kernel}");
        check(&program, &Kernels::of(&program), &[("M", 33), ("S", 40), ("K", 60), ("L", 7)]);
    }
}

#[test]
fn an_epilogue_takes_the_bytes_of_the_pipeline() {
    let schedule = support::rung(&SMALL, "best");
    for kernel in [support::MATMUL, support::LINEAR] {
        for program in programs(kernel, &schedule) {
            agrees(&program);
            let kernel = lower(&program, Variant::Exact).unwrap();
            assert_eq!(pairs(&kernel), ["acc/a", "acc/b"], "{kernel}");
            // One barrier more than the pipeline has, once a CTA.
            assert_eq!(barriers_by_depth(&kernel)[0], 3, "{kernel}");
        }
    }
    let program = &agree::programs(support::MATMUL, &schedule)[0];
    assert_eq!(each_counts(program, &[("M", 33), ("N", 40), ("K", 24)]), (1, 1));
}

/// Each buffer moved onto another that lives at the same time: the verifier or the interpreter says so.
#[test]
fn a_wrong_place_is_found() {
    let text = "stage(a, b at k: shared); stage(d, e at l: shared); stage(p: shared)";
    let program = &twice(text)[0];
    let right = lower(program, Variant::General).unwrap();
    let launch = launch(program, &[("M", 17), ("N", 16), ("K", 70), ("L", 100)]);
    let mut wrong = 0;
    for a in 0..right.shared.len() {
        for b in (0..right.shared.len()).filter(|b| *b != a) {
            let mut kernel = right.clone();
            kernel.shared[a].start = kernel.shared[b].start;
            if pairs(&kernel).iter().all(|p| pairs(&right).contains(p)) {
                continue;
            }
            wrong += 1;
            let found = verify(&kernel).is_err() || interpret(&kernel, &mut launch.clone()).is_err();
            assert!(found, "{kernel}");
        }
    }
    assert!(wrong > 4, "{wrong}");
}

/// A kernel of 64 threads with two buffers in the same bytes.
fn two(body: &str) -> (Result<(), String>, Result<(), String>) {
    let text = format!(
        "kernel k sm_80 threads 64 {{
  param x: tensor f32 align 16
  param y: mut tensor f32 align 16
  param N: dim
  shared s: f32[64] align 16 at 0
  shared t: f16[128] align 16 at 128
  grid N / 64
{body}
}}
"
    );
    let kernel = parse(&text).unwrap();
    let data = |x: f32| vec![x; 64];
    let mut launch = Launch {
        dims: [("N".to_string(), 64)].into(),
        tensors: [("x".to_string(), data(1.0)), ("y".to_string(), data(0.0))].into(),
        ..Launch::default()
    };
    (verify(&kernel).map_err(|e| e.what), interpret(&kernel, &mut launch).map(|_| ()).map_err(|e| e.what))
}

#[test]
fn lives_are_checked() {
    let write = "live s store shared s[tid] = f32(1.0)";
    let second = "store shared t[tid] = f16(2.0)";
    let fine = (Ok(()), Ok(()));
    let both = |verifier: &str, interpreter: &str| (Err(verifier.to_string()), Err(interpreter.to_string()));
    assert_eq!(two(&format!("{write} barrier live t {second} barrier load %0: f16 = shared t[0]")), fine);
    assert_eq!(
        two(&format!("{write} live t {second}")),
        both(
            "shared buffer `t` begins before all threads have left its bytes",
            "writes shared element 0 that thread 32 wrote since the last barrier"
        )
    );
    assert_eq!(
        two(&format!("{write} barrier live t {second} barrier load %0: f32 = shared s[33]")),
        both(
            "shared buffer `s` is accessed while another has its bytes",
            "reads shared element 33 before it is written"
        )
    );
    // Bytes that nothing wrote are lost, too.
    assert_eq!(
        two(&format!("{write} barrier live t barrier load %0: f32 = shared s[63]")).1,
        Err("reads shared element 63 before it is written".to_string())
    );
    let copy = "live s copy shared s[tid] <- x[tid] x 1 commit";
    assert_eq!(
        two(&format!("{copy} wait 1 barrier live t {second}")),
        both(
            "shared buffer `t` begins while a copy to its bytes may be on its way",
            "takes bytes of shared memory while a copy to them is on its way"
        )
    );
    assert_eq!(two(&format!("{copy} wait 0 barrier live t {second}")), fine);
    assert_eq!(
        two(&format!("{copy} wait 0 live t {second}")).0,
        Err("shared buffer `t` begins before all threads have left its bytes".to_string())
    );
    // In a loop the step before counts.
    let body = format!("{write} barrier live t {second}");
    assert_eq!(
        two(&format!("for %0: i32 in 0 to 2 step 1 {{ {body} }}")),
        both(
            "shared buffer `s` begins before all threads have left its bytes",
            "writes shared element 32 that thread 0 wrote since the last barrier"
        )
    );
    assert_eq!(two(&format!("for %0: i32 in 0 to 2 step 1 {{ {body} barrier }}")), fine);
    assert_eq!(
        two(&format!("if (tid < 32) {{ {write} }}")).0,
        Err("a life that begins for some threads alone".to_string())
    );
}

/// Copies by tensor maps write through another proxy: who has stored to those bytes before fences, and then all meet.
#[test]
fn boxes_take_bytes_that_are_fenced() {
    let verdict = |between: &str| {
        let text = format!(
            "kernel k sm_90 threads 64 {{
  param x: tensor f32 align 16
  param N: dim
  param x.map: map x [0: 32] swizzle 0
  shared t: f32[32] align 128 at 0
  shared s: f32[64] align 16 at 0
  shared full: i32[2] align 8 at 512
  grid N / 64
  for %0: i32 in 0 to 4 step 1 {{
    live t
    one thread 0 {{ tensor shared t[0] <- x.map[0] completes shared full[0] }}
    barrier
    live s
    store shared s[tid] = f32(1.0)
    {between}
  }}
}}
"
        );
        verify(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")))
            .map_or_else(|e| e.what, |()| "valid".into())
    };
    assert_eq!(verdict("proxy_fence barrier"), "valid");
    let unfenced = "shared buffer `t` begins before ordinary accesses of its bytes are fenced from copies";
    assert_eq!(verdict("barrier"), unfenced);
    assert_eq!(verdict("barrier if (tid < 32) { proxy_fence } barrier"), unfenced);
    assert_eq!(verdict("one thread 0 { proxy_fence } barrier"), unfenced);
    assert_eq!(verdict("proxy_fence"), "shared buffer `t` begins before all threads have left its bytes");
}
