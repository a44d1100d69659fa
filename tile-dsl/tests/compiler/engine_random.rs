//! Scheduled nests compute what the kernel says: under the nest interpreter, against the reference evaluator.

use crate::support::*;
use std::collections::{BTreeMap, BTreeSet};
use tile_dsl::{
    directive::{self, DirectiveKind},
    dtype::DType,
    engine::{self, testing::Random},
    lower::{admit, lower},
    nest::{self, Arithmetic, Nest},
    program::Variant,
    schedule::Via,
    tile::{
        ElemType, Kernel,
        evaluate::{Elements, Inputs, evaluate},
    },
};

/// Small integers in every tensor, so that sums are exact in every order.
fn inputs(kernel: &Kernel, dims: &BTreeMap<String, i64>, random: &mut Random) -> Inputs {
    let tensors = kernel.tensors.iter().filter(|t| !t.mutable).map(|t| {
        let len: i64 = t.dims.iter().map(|d| d.eval(dims).expect("a dim for each extent")).product();
        let ElemType::Fixed(dtype) = t.elem else { panic!("instantiated") };
        let values = (0..len).map(|_| random.below(5) as f64 - 2.0);
        (t.name.clone(), Elements::from_f64(dtype, values))
    });
    Inputs { dims: dims.clone(), tensors: tensors.collect(), ..Inputs::default() }
}

/// Extents that make tails, within the bounds a schedule asserts.
fn dims(kernel: &Kernel, nest: &Nest, random: &mut Random) -> BTreeMap<String, i64> {
    let mut dims: BTreeMap<String, i64> = BTreeMap::new();
    for (n, axis) in kernel.axes.iter().enumerate() {
        for dim in axis.extent.dims.keys() {
            let most =
                nest.bounds.get(&tile_dsl::index::AxisId(n as u16)).map_or(19, |b| i64::from(*b).min(40));
            let size = 1 + random.below(most as usize) as i64;
            dims.entry(dim.clone()).and_modify(|d| *d = size.min(*d)).or_insert(size);
        }
    }
    admit(nest, &mut dims);
    dims
}

fn agree(kernel: &Kernel, nest: &Nest, what: &str, seed: u64) {
    let mut random = Random::new(seed);
    let dims = dims(kernel, nest, &mut random);
    agree_at(kernel, nest, &dims, what, seed);
}

fn agree_at(kernel: &Kernel, nest: &Nest, dims: &BTreeMap<String, i64>, what: &str, seed: u64) {
    let inputs = Inputs { tiles: nest.tiles(), ..inputs(kernel, dims, &mut Random::new(seed)) };
    let run = |n: &Nest, a| {
        nest::interpret(n, &inputs, a, seed).unwrap_or_else(|e| panic!("{what}, {dims:?}: {e}\n{n}"))
    };
    let start = nest::initial(kernel).unwrap();
    // What a recurrence computes has no tile of its own at the start.
    if start.recurrences.is_empty() {
        let (expected, found) = (run(&start, Arithmetic::Modular), run(nest, Arithmetic::Modular));
        assert_eq!(expected, found, "{what}, modulo p, {dims:?}\n{nest}");
    }
    let exact = run(nest, Arithmetic::Exact);
    for (name, elements) in evaluate(kernel, &inputs).unwrap() {
        let (expected, found) = (elements.to_f64(), &exact[&name]);
        let differs = expected.iter().zip(found).position(|(a, b)| {
            // Sums of exponentials are rounded in their order; everything else is exact on small integers.
            if kernel.name == "softmax" { (a - b).abs() > 1e-5 * a.abs() } else { a != b }
        });
        assert_eq!(differs, None, "{what}: `{name}`, {dims:?}\n{nest}");
    }
}

#[test]
fn initial_nests_compute_what_the_kernel_says() {
    for text in [MATMUL, LINEAR, SOFTMAX, VECTOR_ADD, CONV1D, CONV3] {
        let generic = kernel(text);
        for dtype in dtypes(&generic) {
            let kernel = generic.instantiate(dtype);
            let nest = nest::initial(&kernel).unwrap();
            assert_eq!(nest::verify(&nest), Vec::<String>::new(), "{nest}");
            for seed in 0..3 {
                agree(&kernel, &nest, &kernel.name.clone(), seed);
            }
        }
    }
}

/// A copy stands at several places with loops in other orders, and its box is that of each place.
#[test]
fn copies_at_places_of_other_orders() {
    // One thread's fragment in `y`, but that of all rows in `e.max`: with 33 rows the second CTA has only the first,
    // and a box of 32 rows from row 33 on would leave the copy around it.
    let fragments = "layout(x: col); tile(r = 32); tile(n = 5); recompute(v, e); fuse(v at n); fuse(e at r); \
        reorder(n.t, r.t); reorder(r.t, n.t in v); stage(x at n.o: shared, vector(4)); pad(x: 4); \
        fragment(x at n.t); bind(r.t -> thread.x)";
    // Rows of 34 and of 32 elements: only the latter suit the vectors, and only they are read with them.
    let rows = SPREAD.replace("N + 32", "N + 2").replace("n + 32", "n + 1");
    let vectors = "tile(r = 4, n = 32); split(n -> nt, nv: 4); stage(x at n.o: shared); vectorize(nv in y)";
    for (text, directives, size) in [(SOFTMAX, fragments, [33, 41]), (&rows, vectors, [5, 64])] {
        let kernel = kernel(text);
        let program = engine::schedule(&kernel, &schedule(directives), None).unwrap();
        let dims = ["R", "N"].map(str::to_string).into_iter().zip(size).collect();
        agree_at(&kernel.instantiate(None), &program.nest, &dims, &kernel.name, 1);
        for variant in [Variant::Aligned, Variant::General] {
            lower(&program, variant).unwrap_or_else(|e| panic!("{e}: {}", program.nest));
        }
    }
}

/// Two values with readers of their own: computing one anew does not depend on where the other is computed.
const TWO_VALUES: &str = "\
kernel two(x: &[f32; R, N], z: &[f32; R, N], y: &mut [f32; R, N]) {
    axis r in program_tile(R);
    axis n in whole(N);
    let u = load(x, [r, n]) * 2.0;
    let g = load(z, [r, n]) * 3.0;
    let c = sum(u * g, n);
    let d = sum(g, n);
    store(y, [r, n], g - (u * c + d));
}
";

#[test]
fn values_are_recomputed_in_any_order() {
    let kernel = kernel(TWO_VALUES);
    for directives in [
        "tile(r = 4); recompute(g, u); fuse(g, u at n); bind(r -> thread.x)",
        "tile(r = 4); recompute(u, g); fuse(u, g at n); bind(r -> thread.x)",
        "fits(N <= 32); tile(r = 4); recompute(u); bind(r -> thread.x)",
    ] {
        let program = engine::schedule(&kernel, &schedule(directives), None).unwrap();
        let computed = program.nest.to_string().matches("(let [u]").count();
        assert_eq!(computed, 2, "{directives}\n{}", program.nest);
        for seed in 0..3 {
            agree(&kernel.instantiate(None), &program.nest, directives, seed);
        }
    }
}

/// Schedules a kernel; `TILEWRIGHT_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("TILEWRIGHT_SEEDS").map_or(10, |n| n.parse().expect("a number"))
}

fn random_schedules(text: &str) {
    let generic = kernel(text);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..seeds() {
        let schedule = engine::random_schedule(&generic, seed);
        if seed == 0 {
            assert_eq!(schedule, engine::random_schedule(&generic, seed), "equal seeds, equal schedules");
        }
        schedule.directives.iter().for_each(|d| *kinds.entry(d.kind.name()).or_default() += 1);
        let dtype = generic.generic.as_ref().map(|_| DType::F32);
        let nest = engine::schedule(&generic, &schedule, dtype).unwrap().nest;
        assert_eq!(nest::verify(&nest), Vec::<String>::new(), "{nest}");
        let text: Vec<String> = schedule.directives.iter().map(ToString::to_string).collect();
        let what = format!("{} seed {seed} {{ {} }}", generic.name, text.join("; "));
        agree(&generic.instantiate(dtype), &nest, &what, seed);
    }
    println!("{}: {kinds:?}", generic.name);
}

#[test]
fn random_schedules_of_matmul() {
    random_schedules(MATMUL);
}
#[test]
fn random_schedules_of_linear() {
    random_schedules(LINEAR);
}
#[test]
fn random_schedules_of_a_matrix_times_itself() {
    random_schedules(GRAM);
}
#[test]
fn random_schedules_of_squares_beside_a_product() {
    random_schedules(NORM);
}
#[test]
fn random_schedules_of_softmax() {
    random_schedules(SOFTMAX);
}
#[test]
fn random_schedules_of_vector_add() {
    random_schedules(VECTOR_ADD);
}
#[test]
fn random_schedules_of_conv1d() {
    random_schedules(CONV1D);
}
#[test]
fn random_schedules_of_recurrences() {
    random_schedules(RECURRENCE);
    random_schedules(NESTED);
}
#[test]
fn random_schedules_of_conv3() {
    random_schedules(CONV3);
}

/// How many of `count` random schedules in f16 have each directive; copies by tensor maps and collected tiles have names of
/// their own.
fn drawn(text: &str, count: u64) -> BTreeMap<&'static str, usize> {
    let mut found = BTreeMap::new();
    for seed in 0..count {
        let wild = engine::testing::wild_schedule(&kernel(text), Some(DType::F16), seed, 1 << 14);
        let Some(schedule) = wild.schedule else { continue };
        let name = |kind: &DirectiveKind| match kind {
            DirectiveKind::Stage(directive::Stage { buffer, .. }) if buffer.starts_with("a[i") => "rows",
            DirectiveKind::Stage(directive::Stage { buffer, .. }) if buffer.starts_with("a[j") => "columns",
            DirectiveKind::Stage(directive::Stage { via: Via::Stmatrix, .. }) => "stmatrix",
            DirectiveKind::Stage(directive::Stage { via: Via::Tma, at, .. }) => {
                if at.is_some() {
                    "tensor map"
                } else {
                    "collected"
                }
            }
            kind => kind.name(),
        };
        let names: BTreeSet<_> = schedule.directives.iter().map(|d| name(&d.kind)).collect();
        if ["rows", "columns"].iter().all(|name| names.contains(name)) {
            *found.entry("two copies").or_default() += 1;
        }
        names.into_iter().for_each(|name| *found.entry(name).or_default() += 1);
    }
    found
}

/// Every directive is drawn, for products with windows, too: whatever the generator proposes and the checks take away
/// again tests nothing.
#[test]
fn random_schedules_have_every_directive() {
    let (product, window, itself) = (drawn(MATMUL, 360), drawn(CONV2D, 30), drawn(GRAM, 40));
    println!("{product:?}\n{window:?}\n{itself:?}");
    assert!(itself.get("two copies").is_some_and(|n| *n >= 10), "{itself:?}");
    for (name, least) in [
        ("tensor_core", 75),
        ("pipeline", 50),
        ("tensor map", 25),
        ("produce", 10),
        ("registers", 1),
        ("cluster", 5),
        ("persistent", 12),
        ("collected", 5),
        ("stmatrix", 2),
        ("exchange", 5),
        ("fragment", 5),
        ("interleave", 1),
        ("issue", 5),
        ("pingpong", 2),
        ("alternate", 2),
        ("arrive", 2),
        ("cache", 20),
        ("multiple", 20),
        ("segment", 20),
    ] {
        assert!(product.get(name).is_some_and(|n| *n >= least), "{name}: {product:?}");
    }
    for (name, least) in [("tensor_core", 12), ("pipeline", 6)] {
        assert!(window.get(name).is_some_and(|n| *n >= least), "{name}: {window:?}");
    }
}
