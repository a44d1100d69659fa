//! Mistakes in schedules: what the engine says, in full. `TILEWRIGHT_BLESS=1` rewrites the expected text.

use crate::support::*;
use std::fmt::Write;
use tile_dsl::{
    directive::{self, DirectiveKind},
    dtype::DType,
    engine,
    schedule::{Directive, Schedule, Target},
    span::SpanId,
    tile::Kernel,
};

/// What is stored depends on the order in which the sum grows.
const SUMS: &str = "\
kernel sums(x: &[f32; R, M, N], w: &[f32; M, N], s: &[f32; R], z: &mut [f32; R, M, N]) {
    axis r in program_tile(R);
    axis m in tiles(M);
    axis n in tiles(N);
    let mut t = load(s, [r]);
    for m {
        for n {
            store(z, [r, m, n], load(x, [r, m, n]) + t);
            t = dot(load(x, [r, m, n]), load(w, [m, n]), t);
        }
    }
}";

/// Three program axes, two sums one behind the other, and three stores, two of them to one tensor.
const BOTH: &str = "\
kernel both(a: &[f32; B, M, K], d: &[f32; K, N], c: &mut [f32; 2, B, M, N], p: &mut [f32; B, M, N]) {
    axis b in program_tile(B);
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    axis l in tiles(K);
    let mut first = full::<f32>(0.0, [b, i, j]);
    for k {
        first = dot(load(a, [b, i, k]), load(d, [k, j]), first);
    }
    let mut second = full::<f32>(0.0, [b, i, j]);
    for l {
        second = second + sum(load(a, [b, i, l]) * load(d, [l, j]), l);
    }
    store(c, [0, b, i, j], first);
    store(c, [1, b, i, j], second);
    store(p, [b, i, j], first * second);
}";

const UNREAD: &str = "\
kernel unread(a: &[f16; M, N], b: &[f16; M, N], c: &mut [f16; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    store(c, [i, j], load(a, [i, j]));
}";

/// Kernel, schedule. One mistake each, unless said otherwise.
const CASES: [(&str, &str, &str); 89] = [
    ("axis that is not there", MATMUL, "tile(m = 32)"),
    ("tile of too many points", MATMUL, "tile(i = 1048577)"),
    ("loop that is not there", MATMUL, "tile(i = 32); bind(x -> thread.x)"),
    ("misspelt loop", MATMUL, "tile(i = 32); split(i -> iout, iin: 8); bind(iinn -> thread.x)"),
    ("a loop that was split", MATMUL, "tile(i = 32); split(i -> it, ir: 8); bind(i -> thread.x)"),
    ("factor that does not divide", MATMUL, "tile(i = 32); split(i -> it, ir: 5)"),
    ("factors that do not divide", MATMUL, "tile(i = 32); split(i -> iw, it, ir: 3, 4)"),
    ("name taken", MATMUL, "tile(i = 32, j = 32); split(i -> a, b: 8); split(j -> a, c: 8)"),
    ("parallel reduction", MATMUL, "tile(i = 8, j = 8, k = 32); bind(i -> thread.y, k -> thread.x)"),
    (
        "reduction at the wrong level",
        MATMUL,
        "tile(i = 8, j = 8, k = 32); reduce(acc: warp); bind(k -> lane.x)",
    ),
    ("reduction without parts", MATMUL, "tile(i = 32, j = 32); reduce(acc: lane); bind(i -> thread.x)"),
    ("combining what is no reduction", SOFTMAX, "fits(N <= 64); reduce(e: lane)"),
    ("grid over a reduction", MATMUL, "tile(k = 32); bind(k -> block.x)"),
    ("loop without fixed steps on threads", MATMUL, "bind(k -> thread.x)"),
    ("two loops on one dimension", MATMUL, "tile(i = 32, j = 32); bind(i -> thread.x, j -> thread.x)"),
    ("threads and lanes", MATMUL, "tile(i = 32, j = 32); bind(i -> thread.x, j -> lane.x)"),
    ("too many threads", MATMUL, "tile(i = 64, j = 32); bind(i -> thread.x, j -> thread.y)"),
    ("lanes that are no warp", MATMUL, "tile(i = 8, j = 8); bind(i -> lane.x, j -> warp.x)"),
    ("warps without lanes", MATMUL, "tile(i = 8, j = 8); bind(j -> warp.x)"),
    ("bound twice", MATMUL, "tile(i = 32, j = 8); bind(j -> thread.x); unroll(j)"),
    ("reorder of loops that carry a sum that is read", SUMS, "tile(m = 4, n = 4); reorder(n.o, m.o)"),
    ("reorder across a let", SOFTMAX, "fits(N <= 64); tile(r = 4); reorder(n, r.o)"),
    ("reorder of loops that never nest", MATMUL, "tile(i = 32, k = 8); reorder(k.o, k.o)"),
    ("stage of what is stored", MATMUL, "tile(k = 8); stage(c at k: shared)"),
    ("stage without a place", MATMUL, "tile(k = 8); stage(a: shared)"),
    ("stage of nothing", MATMUL, "tile(k = 8); stage(q at k: shared)"),
    ("stage of all of an axis", MATMUL, "tile(i = 32, j = 32, k = 8); stage(a at i: shared)"),
    ("stage where nothing is read", LINEAR, "tile(i = 32, j = 32, k = 8); stage(bias at k: shared)"),
    (
        "tiles too large for shared memory",
        MATMUL,
        "tile(i = 256, j = 256, k = 128); split(i -> it, ir: 16); split(j -> jt, jr: 16); bind(it -> thread.y, jt -> thread.x); stage(a, b at k: shared)",
    ),
    (
        "ring too deep for shared memory",
        MATMUL,
        "tile(i = 128, j = 128, k = 32); split(i -> it, ir: 8); split(j -> jt, jr: 8); bind(it -> thread.y, jt -> thread.x); stage(a, b at k: shared, cp_async, vector(16)); pipeline(k, 6)",
    ),
    (
        "epilogue in the bytes of a ring too deep for shared memory",
        MATMUL,
        "tile(i = 128, j = 128, k = 32); split(i -> it, ir: 8); split(j -> jt, jr: 8); bind(it -> thread.y, jt -> thread.x); stage(a, b at k: shared, cp_async, vector(16)); stage(acc: shared); pipeline(k, 6)",
    ),
    (
        "room to combine",
        MATMUL,
        "tile(i = 128, j = 64, k = 8); split(i -> it, ir: 16); split(j -> jt, jr: 8); reduce(acc: cta); bind(it -> thread.y, jt -> thread.x, k -> thread.z)",
    ),
    (
        "registers of a pipeline too long to expand",
        MATMUL,
        "tile(i = 16, j = 16, k = 16384); bind(i -> thread.y, j -> thread.x); fragment(a, b at k.t); pipeline(k.t, 2)",
    ),
    (
        "loops too long to expand",
        MATMUL,
        "tile(i = 128, j = 64, k = 256); split(i -> it, ir: 16); split(j -> jt, jr: 8); bind(it -> thread.y, jt -> thread.x); unroll(k)",
    ),
    (
        "stores beside a loop that is bound to CTAs",
        "\
kernel k(y: &mut [f32; M], z: &mut [f32; M], x: &[f32; M]) {
    axis i in program_tile(M);
    store(z, [i], load(y, [i]));
    store(y, [i], load(x, [i]));
}",
        "tile(i = 2); stage(x at i.t: shared); pipeline(i.t, 2); bind(i.t -> block.z)",
    ),
    ("copy too long for its threads", MATMUL, "tile(i = 8, k = 4096); stage(a at k: shared)"),
    (
        "places of a copy that share bytes, not a buffer",
        SOFTMAX,
        "tile(r = 164, n = 256); recompute(v, e); fuse(v, e at n); split(n -> nh, nl: 16); reorder(n.o, r.t, nh, nl); reorder(nh, n.o, r.t, nl in e.max); stage(x at n.o: shared); bind(r.t -> thread.x)",
    ),
    (
        "vector that does not divide a row at one place",
        SPREAD,
        "tile(r = 4, n = 32); stage(x at n.o: shared, vector(16))",
    ),
    (
        "swizzle that does not divide a row at one place",
        SPREAD,
        "tile(r = 4, n = 32); stage(x at n.o: shared); swizzle(x: 128)",
    ),
    ("cp.async of 16-bit elements", MATMUL, "tile(i = 32, j = 32, k = 32); stage(a at k: shared, cp_async)"),
    (
        "cp.async that transposes",
        MATMUL,
        "tile(i = 32, j = 32, k = 32); stage(a at k: shared, transposed, cp_async, vector(16))",
    ),
    (
        "vector that does not divide a row",
        MATMUL,
        "tile(i = 32, j = 32, k = 6); stage(a at k: shared, vector(16))",
    ),
    ("vector of 12 bytes", MATMUL, "tile(i = 32, j = 32, k = 12); stage(a at k: shared, vector(12))"),
    (
        "copy in each thread",
        MATMUL,
        "tile(i = 32, j = 32, k = 8); reorder(i.t, k.o); stage(a at k: shared); bind(i -> thread.x)",
    ),
    ("pipeline without a stage", MATMUL, "tile(i = 32, j = 32, k = 8); pipeline(k, 2)"),
    (
        "pipeline at another loop",
        LINEAR,
        "tile(i = 32, j = 32, k = 8); stage(bias at j: shared); pipeline(k, 2)",
    ),
    ("fragment of what is stored", MATMUL, "tile(i = 32, j = 32, k = 8); fragment(c at k.t)"),
    ("fragment of all of an axis", MATMUL, "tile(i = 32, j = 32, k = 8); fragment(a at i.o)"),
    ("fragment too large for registers", MATMUL, "tile(i = 32, j = 32, k = 32); fragment(a at k.o)"),
    (
        "registers pipelined over any number of steps",
        MATMUL,
        "tile(i = 32, j = 32); fragment(a at k); pipeline(k, 2)",
    ),
    (
        "shared memory and registers in one pipeline",
        MATMUL,
        "tile(i = 8, j = 8, k = 8); stage(a at k: shared); fragment(b at k.o); pipeline(k, 2)",
    ),
    ("serpentine over a sum", MATMUL, "tile(i = 32, j = 32, k = 8); serpentine(k)"),
    ("xor of 24 steps", MATMUL, "tile(i = 8, j = 24); bind(i -> thread.x, j -> thread.y ^ thread.x)"),
    ("xor with too many", MATMUL, "tile(i = 32, j = 8); bind(i -> thread.x, j -> thread.y ^ thread.x)"),
    (
        "xor with the units of a sum",
        MATMUL,
        "tile(i = 8, j = 8, k = 4); reduce(acc: cta); bind(k -> thread.x, j -> thread.y ^ thread.x)",
    ),
    (
        "fragment around a copy in shared memory",
        MATMUL,
        "tile(i = 32, j = 32, k = 8); stage(a at k.t: shared); fragment(a at k.o)",
    ),
    ("xor with nothing", MATMUL, "tile(i = 8, j = 8); bind(j -> thread.y ^ thread.x)"),
    ("level that is not there", MATMUL, "tile(i = 32, j = 32); assemble(7)"),
    ("pipeline of one stage", MATMUL, "tile(k = 8); stage(a at k: shared); pipeline(k, 1)"),
    ("pad without a stage", MATMUL, "pad(a: 16)"),
    (
        "swizzle that does not fit",
        MATMUL,
        "tile(i = 32, j = 32, k = 4); stage(a at k: shared); swizzle(a: 128)",
    ),
    (
        "vectorize of a strided access",
        MATMUL,
        "tile(i = 32, j = 32); split(i -> it, iv: 4); bind(it -> thread.y, j -> thread.x); vectorize(iv)",
    ),
    (
        "vectorize of a copy across its rows",
        MATMUL,
        "tile(i = 32, j = 32, k = 8); split(i -> it, iv: 4); stage(a, b at k: shared); bind(it -> thread.y, j -> thread.x); vectorize(iv in acc)",
    ),
    (
        "vector too wide",
        VECTOR_ADD,
        "tile(i = 1024); split(i -> it, iv: 8); bind(it -> thread.x); vectorize(iv)",
    ),
    (
        "vector that starts anywhere",
        CONV3,
        "tile(i = 256); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv)",
    ),
    (
        "loop inside a vector",
        CONV1D,
        "tile(i = 256); split(i -> it, iv: 4); bind(it -> thread.x); stage(x at i: shared); fits(R <= 8); unroll(iv); vectorize(iv in y.sum)",
    ),
    ("row without a bound", SOFTMAX, "tile(r = 4); bind(r -> warp.x)"),
    ("too many registers", SOFTMAX, "fits(N <= 4096); tile(r = 4); bind(r -> thread.x)"),
    (
        "one buffer for every thread's own value",
        SOFTMAX,
        "tile(r = 4); recompute(v, e); fuse(v, e at n); split(n -> no, nt: 32); bind(nt -> thread.x); reduce(e.max, y.sum: cta); stage(v: shared)",
    ),
    ("fuse over a reduced axis", SOFTMAX, "fuse(e.max at n)"),
    ("fuse with several readers", SOFTMAX, "fuse(v at n)"),
    ("recompute with one reader", MATMUL, "recompute(acc)"),
    // More sums than a thread has registers: the parts of none are laid out.
    ("parts of huge tiles", MATMUL, "tile(i = 65536, j = 65536, k = 16); split_k(k, 4)"),
    ("parts of tiles just as huge", MATMUL, "tile(i = 65536, j = 65535, k = 16); split_k(k, 4)"),
    ("parts of huge tiles in clusters", MATMUL, "tile(i = 32768, j = 32768, k = 16); split_k(k, 4; cluster)"),
    ("exchange of what is not stored", UNREAD, "tile(i = 16, j = 16); exchange(b)"),
    ("parts of two sums", BOTH, "tile(k = 8, l = 8); split_k(k, 2); split_k(l, 2)"),
    ("two axes in segments", BOTH, "tile(i = 8, j = 32); unroll(i, j); segment(j: 80); segment(i: 20)"),
    ("clusters along two axes", BOTH, "tile(i = 8, j = 32); cluster(b: 2); cluster(i: 2)"),
    ("clusters of two kinds", BOTH, "tile(k = 8); split_k(k, 2; cluster); cluster(b: 2)"),
    (
        "one tile of two parts",
        BOTH,
        "tile(i = 8, j = 32); bind(i -> thread.y, j -> thread.x); stage(c: shared, tma)",
    ),
    (
        "two kinds of producers",
        BOTH,
        "tile(i = 8, j = 32, k = 8, l = 8); bind(i -> thread.y, j -> thread.x); stage(a at k: shared, tma); stage(d at l: shared, tma); pipeline(k, 2); pipeline(l, 2); produce(k: warp); produce(l: warpgroup)",
    ),
    ("bands over one axis", BOTH, "order(grouped(8) over b)"),
    ("bands over one axis twice", BOTH, "order(hilbert over b, b)"),
    ("bands over a sum", BOTH, "tile(k = 8); order(grouped(8) over i, k)"),
    ("bands over an axis that is not there", BOTH, "order(serpentine(8) over i, m)"),
    ("rows over two axes", BOTH, "order(row over i, j)"),
    (
        "three sets of registers",
        MATMUL,
        "tile(i = 32, j = 32, k = 16); stage(a, b at k: shared); pipeline(k, 2); fragment(a, b at k.t); pipeline(k.t, 3); interleave(k.t: copies(1/2)); bind(i -> thread.y, j -> thread.x)",
    ),
    (
        "two mistakes, and what follows from them",
        MATMUL,
        "tile(i = 32); split(i -> it, ir: 5); bind(it -> thread.x, ir -> thread.y); tile(q = 8)",
    ),
];

fn report(kernel_text: &str, text: &str) -> String {
    let schedule: Schedule = schedule(text);
    let kernel = kernel(kernel_text);
    let mut out = String::new();
    let dtypes = if kernel.generic.is_some() { vec![Some(DType::F32), Some(DType::F16)] } else { vec![None] };
    let mut last = String::new();
    for dtype in dtypes {
        let mut this = String::new();
        match engine::schedule(&kernel, &schedule, dtype) {
            Ok(program) => {
                let _ = write!(this, "  legal\n{}", program.nest);
            }
            Err(errors) => {
                for e in errors {
                    let at = schedule.directives.iter().find(|d| d.span == e.span && e.span.0 != 0);
                    let at = at.map_or("the kernel".to_string(), |d| d.to_string());
                    let _ = writeln!(this, "  error at {at}\n    {}", e.message);
                    for note in e.notes {
                        let _ = writeln!(this, "    note: {}", note.text);
                    }
                    if let Some(help) = e.help {
                        let _ = writeln!(this, "    help: {help}");
                        mended(&kernel, &schedule, dtype, &e.message, &help);
                    }
                }
            }
        }
        if this != last {
            if let (Some(dtype), false) = (dtype, last.is_empty()) {
                let _ = writeln!(out, "  with {dtype}:");
            }
            out.push_str(&this);
            last = this;
        }
    }
    out
}

/// Does what a help says, and checks that the mistake is gone and no other has come.
fn mended(kernel: &Kernel, schedule: &Schedule, dtype: Option<DType>, mistake: &str, help: &str) {
    let mut other = schedule.clone();
    // Between clauses, not inside of what is quoted.
    for clause in help.replace("`; ", "`\n").lines() {
        let quoted: Vec<Directive> = clause
            .split('`')
            .skip(1)
            .step_by(2)
            .flat_map(|text| crate::support::schedule(text).directives)
            .collect();
        let (old, new) = match clause.split(' ').next() {
            Some("replace") => quoted.split_at(1),
            Some("remove") => (quoted.as_slice(), &[] as &[Directive]),
            Some("add") => (&[] as &[Directive], quoted.as_slice()),
            word => panic!("a help starts with {word:?}: {help}"),
        };
        for directive in old {
            let at = other.directives.iter().position(|d| d.kind == directive.kind);
            other.directives.remove(at.unwrap_or_else(|| panic!("`{directive}` is not there: {help}")));
        }
        for directive in new {
            match other.directives.iter_mut().find(|d| d.key() == directive.key()) {
                Some(same) => same.kind = directive.kind.clone(),
                None => other.directives.push(directive.clone()),
            }
        }
    }
    let messages = |schedule: &Schedule| -> Vec<String> {
        let errors = engine::schedule(kernel, schedule, dtype).err().unwrap_or_default();
        errors.into_iter().map(|e| e.message).collect()
    };
    let before = messages(schedule);
    for left in messages(&other) {
        assert!(left != mistake && before.contains(&left), "after {help}: {left}");
    }
}

/// A chain of values, each of which takes part in two others.
fn many(values: usize) -> String {
    let mut body = String::from("    let v0 = load(x, [i, j]);\n");
    for n in 1..values {
        let _ = writeln!(body, "    let v{n} = v{} * 0.5 + v{};", n - 1, n / 2);
    }
    format!(
        "kernel many<T>(x: &[T; M, N], y: &mut [T; M, N]) {{\n    axis i in program_tile(M);\n    \
         axis j in program_tile(N);\n{body}    store(y, [i, j], v{});\n}}\n",
        values - 1
    )
}

/// Looking for help costs a number of proofs that does not grow with the kernel, and one cause is one mistake.
#[test]
fn help_takes_a_bounded_number_of_trials() {
    let text = "tile(i = 256, j = 256); split(i -> ia, ib: 2); split(j -> ja, jb, jc: 4, 2); bind(jc -> thread.x, ib -> thread.y)";
    let dtypes = [DType::F32, DType::F16, DType::BF16];
    for values in [3, 30] {
        let schedule = Schedule { dtypes: dtypes.to_vec(), ..crate::support::schedule(text) };
        let mut prover = engine::Prover::new(kernel(&many(values)));
        let mistakes = prover.schedule(&schedule, engine::MOST_TRIALS).unwrap_err();
        assert_eq!(mistakes.len(), 1);
        assert_eq!(mistakes[0].0.help.as_deref(), Some("replace `tile(i = 256)` by `tile(i = 2)`"));
        assert_eq!(mistakes[0].1, dtypes);
        // One for each element type: the first size that is tried is one that fits.
        assert_eq!(prover.tried(), 3);
    }
    for (_, kernel_text, text) in CASES {
        let mut prover = engine::Prover::new(kernel(kernel_text));
        let dtype = prover.kernel().generic.as_ref().map(|_| DType::F32);
        let _ = prover.prove(&crate::support::schedule(text), &[dtype], engine::MOST_TRIALS);
        assert!(prover.tried() <= engine::MOST_TRIALS, "{} trials for {text}", prover.tried());
    }
}

/// A copy by threads is code of each of them. One thread issues the box of a tensor map.
#[test]
fn boxes_are_no_code_of_each_thread() {
    let proved = |via: &str| {
        let text = format!(
            "tile(i = 256, j = 8, k = 2048); split(k -> ku, kk: 256); split(i -> it, ir: 8); reorder(ku, it, ir, j.t); stage(a at ku: shared{via}); unroll(ku); bind(it -> lane.x)"
        );
        let schedule = Schedule { target: Target { sm: 90, specific: true }, ..schedule(&text) };
        engine::schedule(&kernel(MATMUL), &schedule, Some(DType::BF16)).map(|_| ())
    };
    assert_eq!(proved(", tma"), Ok(()));
    let refused = proved("").unwrap_err();
    assert!(refused[0].message.contains("a thread copies 2048 elements of `a`"), "{}", refused[0].message);
}

/// What is wrong with a kernel under all schedules is said once, of the kernel.
#[test]
fn a_kernel_that_has_no_schedule_is_a_mistake_itself() {
    assert_eq!(engine::schedulable(&kernel(&many(128))), Ok(()));
    let wrong = engine::schedulable(&kernel(&many(129))).unwrap_err();
    assert_eq!(wrong.message, "the kernel has 129 values, and 128 are the most");
}

/// What the reader refuses at once, the engine refuses of directives that were not read.
#[test]
fn directives_that_no_text_says_are_refused() {
    let split = DirectiveKind::Split(directive::Split {
        digit: "i".into(),
        names: ["a", "b", "c"].map(String::from).to_vec(),
        factors: vec![8],
    });
    for (kind, message) in [
        (
            DirectiveKind::Tile(directive::Tile { axis: "i".into(), size: 0 }),
            "a tile of 0 points of `i` is not between 1 and 2²⁰",
        ),
        (split, "split of `i` gives 3 names and 1 factors: each name but the first needs a factor"),
    ] {
        let mut schedule: Schedule = schedule("tile(i = 32)");
        schedule.directives.push(Directive { kind, span: SpanId(2), inherited: None });
        let errors = engine::schedule(&kernel(MATMUL), &schedule, Some(DType::F32)).unwrap_err();
        assert_eq!(errors[0].message, message);
    }
}

#[test]
fn mistakes_are_explained() {
    let mut found = String::new();
    for (name, kernel_text, text) in CASES {
        let kernel = kernel(kernel_text).name;
        let _ = writeln!(found, "== {name} ({kernel})\n  {{ {text} }}\n{}", report(kernel_text, text));
    }
    golden("errors.txt", &found);
}
