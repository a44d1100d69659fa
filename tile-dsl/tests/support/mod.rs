//! Kernels and schedules as text, for the tests of the engine.
#![allow(dead_code)] // each test binary uses its part

use tile_dsl::{
    dtype::DType,
    nest::{Level, Order},
    schedule::{Directive, DirectiveKind, Item, Key, Schedule, Space, Target, Unit, UnitDim, Via, extend},
    span::SpanId,
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

/// Reads of one tensor that lie 2 apart in one statement and 32 away in the next.
pub const SPREAD: &str = "\
kernel spread(x: &[f32; R, N + 32], y: &mut [f32; R, N]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let s = sum(load(x, [r, n]) * load(x, [r, n + 2]), n);
    store(y, [r, n], load(x, [r, n + 32]) + s);
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

/// Parses `tile(i = 32, j = 32); bind(i -> thread.x); drop(bind(i))`. Spans count directives from 1.
pub fn items(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    for line in text.split(';').map(str::trim).filter(|l| !l.is_empty()) {
        let span = SpanId(items.len() as u32 + 1);
        let (name, rest) = line.split_once('(').unwrap_or_else(|| panic!("`{line}`"));
        let body = rest.strip_suffix(')').unwrap_or_else(|| panic!("`{line}`"));
        if name == "drop" {
            let (directive, subject) =
                body.split_once('(').map_or((body, None), |(d, s)| (d, s.strip_suffix(')')));
            let (subject, within) = match subject.and_then(|s| s.split_once(" in ")) {
                Some((s, w)) => (Some(s), Some(w)),
                None => (subject, None),
            };
            items.push(Item::Drop { key: Key::new(directive, subject, within), span });
            continue;
        }
        for kind in kinds(name, body) {
            items.push(Item::Directive(Directive { kind, span, inherited: None }));
        }
    }
    items
}

fn kinds(name: &str, body: &str) -> Vec<DirectiveKind> {
    use DirectiveKind as D;
    let s = |x: &str| x.trim().to_string();
    let n = |x: &str| x.trim().parse::<u32>().unwrap_or_else(|_| panic!("number in {name}({body})"));
    let pair = |x: &str, by: &str| {
        let (a, b) = x.split_once(by).unwrap_or_else(|| panic!("`{by}` in {name}({body})"));
        (s(a), s(b))
    };
    let within = |x: &str| match x.split_once(" in ") {
        Some((a, w)) => (s(a), Some(s(w))),
        None => (s(x), None),
    };
    match name {
        "fits" => {
            let (dim, max) = pair(body, "<=");
            vec![D::Fits { dim, max: n(&max) }]
        }
        "layout" => {
            let (tensor, order) = pair(body, ":");
            vec![D::Layout { tensor, column_major: order == "col" }]
        }
        "tile" => body
            .split(',')
            .map(|p| {
                let (axis, size) = pair(p, "=");
                D::Tile { axis, size: n(&size) }
            })
            .collect(),
        "split" => {
            let (digit, rest) = pair(body, "->");
            let (names, factors) = pair(&rest, ":");
            vec![D::Split {
                digit,
                names: names.split(',').map(s).collect(),
                factors: factors.split(',').map(n).collect(),
            }]
        }
        "recompute" => body.split(',').map(|v| D::Recompute { value: s(v) }).collect(),
        "fuse" => {
            let (values, at) = pair(body, " at ");
            values.split(',').map(|v| D::Fuse { value: s(v), at: at.clone() }).collect()
        }
        "reorder" => {
            let (digits, within) = within(body);
            vec![D::Reorder { digits: digits.split(',').map(s).collect(), within }]
        }
        "stage" => {
            let (what, how) = pair(body, ":");
            let (buffers, at) = match what.split_once(" at ") {
                Some((b, at)) => (s(b), Some(s(at))),
                None => (what, None),
            };
            let how: Vec<String> = how.split(',').map(s).collect();
            let vector = how.iter().find_map(|h| h.strip_prefix("vector(")?.strip_suffix(')')).map(n);
            buffers
                .split(',')
                .map(|b| D::Stage {
                    buffer: s(b),
                    at: at.clone(),
                    space: Space::Shared,
                    transposed: how.iter().any(|h| h == "transposed"),
                    via: if how.iter().any(|h| h == "cp_async") { Via::CpAsync } else { Via::Plain },
                    vector,
                })
                .collect()
        }
        "fragment" => {
            let (buffers, at) = pair(body, " at ");
            buffers.split(',').map(|b| D::Fragment { buffer: s(b), at: at.clone() }).collect()
        }
        "pad" | "swizzle" => {
            let (buffer, bytes) = pair(body, ":");
            vec![match name {
                "pad" => D::Pad { buffer, bytes: n(&bytes) },
                _ => D::Swizzle { buffer, span: n(&bytes) },
            }]
        }
        "pipeline" => {
            let (digit, stages) = pair(body, ",");
            vec![D::Pipeline { digit, stages: n(&stages) }]
        }
        "bind" => body
            .split(',')
            .map(|p| {
                let (digit, unit) = pair(p, "->");
                let (unit, xor) = match unit.split_once('^') {
                    Some((unit, other)) => (s(unit), Some(pair(other, ".").1)),
                    None => (unit, None),
                };
                let (unit, dim) = pair(&unit, ".");
                let unit = match unit.as_str() {
                    "block" => Unit::Block,
                    "warp" => Unit::Warp,
                    "lane" => Unit::Lane,
                    "thread" => Unit::Thread,
                    other => panic!("unit {other}"),
                };
                let dimension = |dim: &str| match dim {
                    "x" => UnitDim::X,
                    "y" => UnitDim::Y,
                    "z" => UnitDim::Z,
                    other => panic!("dimension {other}"),
                };
                D::Bind { digit, unit, dim: dimension(&dim), xor: xor.as_deref().map(dimension) }
            })
            .collect(),
        "reduce" => {
            let (values, level) = pair(body, ":");
            let level = match level.as_str() {
                "lane" => Level::Lane,
                "warp" => Level::Warp,
                "cta" => Level::Cta,
                other => panic!("level {other}"),
            };
            values.split(',').map(|v| D::Reduce { value: s(v), level }).collect()
        }
        "unroll" | "serpentine" | "vectorize" => {
            let (digits, within) = within(body);
            let kind = |digit: &str| match name {
                "unroll" => D::Unroll { digit: s(digit), within: within.clone() },
                "serpentine" => D::Serpentine { digit: s(digit), within: within.clone() },
                _ => D::Vectorize { digit: s(digit), within: within.clone() },
            };
            digits.split(',').map(kind).collect()
        }
        "assemble" => vec![D::Assemble { level: n(body) }],
        "occupancy" => vec![D::Occupancy { ctas: n(body) }],
        "order" => vec![D::Order(match body {
            "row" => Order::Row,
            "col" => Order::Column,
            grouped => Order::Grouped(n(grouped
                .strip_prefix("grouped(")
                .and_then(|g| g.strip_suffix(')'))
                .expect("order"))),
        })],
        other => panic!("directive {other}"),
    }
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
