//! Kernels and schedules as text, for the tests of the engine.
#![allow(dead_code)] // each test binary uses its part

use tile_dsl::{
    dtype::DType,
    schedule::{Directive, Item, Schedule, Target, extend},
    tile::{self, Kernel},
};

pub const MATMUL: &str = "\
kernel matmul<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}";

/// One tensor, read in two ways.
pub const GRAM: &str = "\
kernel gram<T>(a: &[T; M, K], c: &mut [T; M, M]) {
    axis i in program_tile(M);
    axis j in program_tile(M);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(a, [j, k]), acc);
    }
    store(c, [i, j], acc.cast::<T>());
}";

/// Squares of rows beside a product of them.
pub const NORM: &str = "\
kernel norm<T>(a: &[T; M, K], b: &[T; K, N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut s = full::<f32>(0.0, [i]);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        s = s + sum(load(a, [i, k]).cast::<f32>() * load(a, [i, k]).cast::<f32>(), k);
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], (acc - s).cast::<T>());
}";

pub const LINEAR: &str = "\
kernel linear<T>(a: &[T; M, K], b: &[T; K, N], bias: &[f32; N], c: &mut [T; M, N]) {
    axis i in program_tile(M);
    axis j in program_tile(N);
    axis k in tiles(K);
    let mut acc = full::<f32>(0.0, [i, j]);
    for k {
        acc = dot(load(a, [i, k]), load(b, [k, j]), acc);
    }
    store(c, [i, j], max(acc + load(bias, [j]), 0.0).cast::<T>());
}";

pub const SOFTMAX: &str = "\
kernel softmax(x: &[f32; R, N], y: &mut [f32; R, N]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let v = load(x, [r, n]);
    let e = exp(v - max(v, n));
    store(y, [r, n], e / sum(e, n));
}";

pub const VECTOR_ADD: &str = "\
kernel vector_add(a: &[f32; N], b: &[f32; N], c: &mut [f32; N]) {
    axis i in program_tile(N);
    store(c, [i], load(a, [i]) + load(b, [i]));
}";

pub const CONV1D: &str = "\
kernel conv1d(x: &[f32; N + R - 1], w: &[f32; R], y: &mut [f32; N]) {
    axis i in program_tile(N);
    axis r in whole(R);
    store(y, [i], sum(load(x, [i + r]) * load(w, [r]), r));
}";

pub const CONV3: &str = "\
kernel conv3(x: &[f32; N + 2], y: &mut [f32; N]) {
    axis i in program_tile(N);
    store(y, [i], (load(x, [i]) + load(x, [i + 1]) + load(x, [i + 2])) / 3.0);
}";

/// Windows of a line: a product that is summed over channels and the steps of a window.
pub const CONV2D: &str = "\
kernel conv2d<T>(x: &[T; P + R - 1, C], w: &[T; R, C, F], y: &mut [T; P, F]) {
    axis p in program_tile(P);
    axis f in program_tile(F);
    axis r in whole(R);
    axis c in tiles(C);
    let mut acc = full::<f32>(0.0, [p, f]);
    for c {
        acc = dot(load(x, [p + r, c]), load(w, [r, c, f]), acc);
    }
    store(y, [p, f], acc.cast::<T>());
}";

/// Reads of one tensor that lie 2 apart in one statement and 32 away in the next.
pub const SPREAD: &str = "\
kernel spread(x: &[f32; R, N + 32], y: &mut [f32; R, N]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let s = sum(load(x, [r, n]) * load(x, [r, n + 2]), n);
    store(y, [r, n], load(x, [r, n + 32]) + s);
}";

/// Whole numbers and halves of them, carried from tile to tile: exact in every order.
pub const RECURRENCE: &str = "\
kernel recurrence(x: &[f32; M, N], v: &[f32; N, D], w: &[f32; M], y: &mut [f32; M, D], z: &mut [f32; M, N]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    axis d in whole(D);
    let mut m = load(w, [i]);
    let mut n = full::<f32>(0.0, [i]);
    let mut acc = full::<f32>(1.0, [i, d]);
    for j {
        let s = load(x, [i, j]) - m;
        let top = max(max(s, j), 0.0);
        let p = select(s >= 0.0, s, -1.0);
        n = n + sum(p, j) - top;
        acc = dot(p, load(v, [j, d]), select(abs(acc) > 8.0, 1.0, acc * top));
        store(z, [i, j], p + m);
        m = min(m + top, 4.0) - 1.0;
    }
    store(y, [i, d], acc + n * m);
}";

/// A loop over tiles in another, and both carry.
pub const NESTED: &str = "\
kernel nested(x: &[f32; M, A, B], y: &mut [f32; M], z: &mut [f32; M, A]) {
    axis i in program_tile(M);
    axis a in tiles(A);
    axis b in tiles(B);
    let mut c = full::<f32>(1.0, [i]);
    for a {
        let mut row = full::<f32>(0.0, [i, a]);
        for b {
            let v = load(x, [i, a, b]);
            row = max(v, b) - row;
            c = sum(sum(v, b), a) - c;
        }
        c = max(row, a) - c;
        store(z, [i, a], row + c);
    }
    store(y, [i], c);
}";

/// Attention, in one pass over the keys.
pub const ATTENTION: &str = "\
kernel attention<T>(q: &[T; M, D], k: &[T; N, D], v: &[T; N, D], o: &mut [T; M, D]) {
    axis i in program_tile(M);
    axis j in tiles(N);
    axis d in whole(D);
    axis e in whole(D);
    let mut m = full::<f32>(-inf, [i]);
    let mut l = full::<f32>(0.0, [i]);
    let mut acc = full::<f32>(0.0, [i, e]);
    for j {
        let s = dot(load(q, [i, d]), load(k, [j, d]), full::<f32>(0.0, [i, j])) * 0.25;
        let top = max(m, max(s, j));
        let p = exp(s - top);
        let alpha = exp(m - top);
        l = l * alpha + sum(p, j);
        acc = dot(p.cast::<T>(), load(v, [j, e]), acc * alpha);
        m = top;
    }
    store(o, [i, e], (acc / l).cast::<T>());
}";

/// The matmul ladder: name, parent, what the rung adds.
pub const LADDER: [(&str, &str, &str); 10] = [
    ("naive", "", "tile(i = 32, j = 32); bind(i -> thread.x, j -> thread.y)"),
    ("coalesced", "naive", "bind(j -> thread.x, i -> thread.y); tile(k = 32); unroll(k)"),
    ("shared", "coalesced", "tile(k = 64); stage(a, b at k: shared)"),
    (
        "blocktile_1d",
        "shared",
        "tile(i = 64, j = 64, k = 8); drop(bind(i)); split(i -> it, ir: 8); bind(it -> thread.y); reorder(k, ir)",
    ),
    (
        "blocktile_2d",
        "blocktile_1d",
        "tile(i = 128, j = 128); drop(bind(j)); split(j -> jr, jt: 16); bind(jt -> thread.x); reorder(k, ir, jr)",
    ),
    (
        "vectorized",
        "blocktile_2d",
        "stage(a at k: shared, transposed, vector(16)); stage(b at k: shared, vector(16)); \
         split(i -> ih, it, ir: 16, 4); split(j -> jh, jt, jr: 16, 4); reorder(k, ih, ir, jh, jr); \
         vectorize(jr); vectorize(ir in acc)",
    ),
    (
        "warptile",
        "vectorized",
        "tile(k = 32); pad(a: 16); drop(bind(it)); drop(bind(jt)); \
         split(i -> iw, ih, il, ir: 2, 4, 4); split(j -> jw, jh, jl, jr: 2, 8, 4); \
         split(jl -> jlo, jli: 2); \
         bind(iw -> warp.y, jw -> warp.x, jli -> lane.x, il -> lane.y, jlo -> lane.z); occupancy(2)",
    ),
    (
        "double_buffered",
        "warptile",
        "tile(k = 16); stage(b at k: shared, cp_async, vector(16)); pipeline(k, 2)",
    ),
    (
        "prefetched",
        "double_buffered",
        "bind(il -> lane.x, jli -> lane.y, jlo -> lane.z ^ lane.x); drop(unroll(k)); drop(vectorize(jr)); \
         drop(vectorize(ir in acc)); fragment(a, b at k.t); pipeline(k.t, 2); reorder(k, jh, jr, ih, ir); \
         assemble(1)",
    ),
    (
        "best",
        "prefetched",
        "tile(j = 256); split(j -> jw, jh, jl, jr: 4, 8, 4); drop(occupancy); pipeline(k, 3); \
         serpentine(jh, jr, ih, ir in acc); stage(acc: shared); vectorize(jr in c); unroll(jh, ih, ir in c); \
         order(grouped(8))",
    ),
];

/// The linear layer takes matmul's directives as they are.
pub const VECTOR_ADD_SCHEDULE: &str =
    "tile(i = 1024); split(i -> it, iv: 4); bind(it -> thread.x); vectorize(iv)";
pub const SOFTMAX_SHORT: &str = "fits(N <= 1024); tile(r = 4); split(n -> no, nl, nv: 32, 4); \
    bind(r -> warp.x, nl -> lane.x); reduce(e.max, y.sum: lane); vectorize(nv)";
pub const SOFTMAX_LONG: &str = "tile(r = 1); recompute(v, e); fuse(v, e at n); split(n -> no, nt, nv: 256, 4); \
    bind(nt -> thread.x); reduce(e.max, y.sum: cta); vectorize(nv)";
pub const CONV_DIRECT: &str = "tile(i = 256); bind(i -> thread.x)";
pub const CONV_STAGED: &str = "fits(R <= 64); tile(i = 256); bind(i -> thread.x); stage(x, w at i: shared)";
pub const CONV3_STAGED: &str = "tile(i = 256); bind(i -> thread.x); stage(x at i: shared)";

pub fn kernel(text: &str) -> Kernel {
    let kernel = tile::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(tile::verify(&kernel), [], "{text}");
    kernel
}

/// A schedule without a parent.
pub fn schedule(text: &str) -> Schedule {
    build("test", extend(&[], &items(text)).unwrap_or_else(|e| panic!("{e:?}")))
}

/// A rung of a ladder, with everything it inherits.
pub fn rung(ladder: &[(&str, &str, &str)], name: &str) -> Schedule {
    fn directives(ladder: &[(&str, &str, &str)], name: &str) -> Vec<Directive> {
        if name.is_empty() {
            return Vec::new();
        }
        let (_, parent, text) = ladder.iter().find(|r| r.0 == name).expect("a rung");
        extend(&directives(ladder, parent), &items(text)).unwrap_or_else(|e| panic!("{name}: {e:?}"))
    }
    build(name, directives(ladder, name))
}

fn build(name: &str, directives: Vec<Directive>) -> Schedule {
    Schedule {
        name: name.into(),
        kernel: "test".into(),
        dtypes: Vec::new(),
        // Shared memory of an sm_80 is too small for it.
        target: if name == "best" { Target { sm: 90, specific: false } } else { Target::DEFAULT },
        directives,
    }
}

/// Directives from text. Spans count them from 1.
pub fn items(text: &str) -> Vec<Item> {
    tile_dsl::schedule::parse(text).unwrap_or_else(|e| panic!("{e} of `{text}`"))
}

/// Element types that a kernel is scheduled for.
pub fn dtypes(kernel: &Kernel) -> Vec<Option<DType>> {
    match &kernel.generic {
        Some(_) => [DType::F32, DType::F16, DType::BF16].map(Some).to_vec(),
        None => vec![None],
    }
}

/// Compares with a file under `tests/goldens`; `TILEWRIGHT_BLESS=1` writes it.
pub fn golden(name: &str, found: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name);
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; TILEWRIGHT_BLESS=1 writes it", path.display()));
    if expected != found {
        let differs = expected.lines().zip(found.lines()).position(|(a, b)| a != b).unwrap_or(0);
        let show =
            |text: &str| text.lines().skip(differs.saturating_sub(3)).take(12).collect::<Vec<_>>().join("\n");
        panic!(
            "{name} differs from line {}; TILEWRIGHT_BLESS=1 rewrites it\n--- expected\n{}\n--- found\n{}",
            differs + 1,
            show(&expected),
            show(found)
        );
    }
}
