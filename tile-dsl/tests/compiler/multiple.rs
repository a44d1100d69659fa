//! `multiple`: what it makes of guards and of what the variants assume, and how it meets other directives.

use crate::support::*;
use tile_dsl::{
    dtype::DType,
    engine,
    lower::{assumptions, lower, promises},
    nest::Nest,
    program::{Program, Variant},
    schedule::extend,
};

const TILED: &str =
    "tile(i = 32, j = 32, k = 16); bind(i -> thread.y, j -> thread.x); stage(a, b at k: shared)";

fn program(kernel_text: &str, text: &str) -> Program {
    let kernel = kernel(kernel_text);
    let dtype = kernel.generic.is_some().then_some(DType::F16);
    engine::schedule(&kernel, &schedule(text), dtype).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

/// A variant without its name.
fn kernel_ir(program: &Program, variant: Variant) -> String {
    let text = lower(program, variant).unwrap().to_string();
    text.split_once('\n').unwrap().1.to_string()
}

fn assumed(program: &Program, variant: Variant) -> Vec<String> {
    assumptions(program, variant).iter().map(ToString::to_string).filter(|text| text.contains('%')).collect()
}

#[test]
fn what_is_whole_in_every_launch_has_no_guard() {
    let any = program(MATMUL, TILED);
    let whole = program(MATMUL, &format!("multiple(M: 64, N: 32, K: 16); {TILED}"));
    assert_ne!(kernel_ir(&any, Variant::Aligned), kernel_ir(&any, Variant::Exact));
    assert_eq!(kernel_ir(&whole, Variant::Aligned), kernel_ir(&any, Variant::Exact));
    // A number that the tile does not divide, and that does not divide the tile, says too little.
    let half = program(MATMUL, &format!("multiple(M: 16, N: 48, K: 8); {TILED}"));
    assert_eq!(kernel_ir(&half, Variant::Aligned), kernel_ir(&any, Variant::Aligned));
    assert_eq!(kernel_ir(&half, Variant::Exact), kernel_ir(&any, Variant::Exact));
}

#[test]
fn one_axis_loses_its_guard_alone() {
    let texts = ["", "multiple(M: 32);", "multiple(N: 32);", "multiple(K: 16);"];
    let found = texts.map(|text| kernel_ir(&program(MATMUL, &format!("{text} {TILED}")), Variant::General));
    for (n, text) in found.iter().enumerate().skip(1) {
        assert!(text.lines().count() < found[0].lines().count(), "{}", texts[n]);
    }
}

#[test]
fn what_follows_is_not_assumed() {
    let any = program(MATMUL, TILED);
    assert_eq!(assumed(&any, Variant::Exact), ["K % 16 == 0", "M % 32 == 0", "N % 32 == 0"]);
    assert_eq!(assumed(&any, Variant::General), [""; 0]);
    let rows = program(MATMUL, &format!("multiple(M: 64); {TILED}"));
    assert_eq!(assumed(&rows, Variant::Exact), ["K % 16 == 0", "M % 64 == 0", "N % 32 == 0"]);
    assert_eq!(assumed(&rows, Variant::General), ["M % 64 == 0"]);

    // Rows of 8 halves are 16 bytes.
    let copied = "tile(i = 32, j = 32, k = 16); bind(i -> thread.y, j -> thread.x); stage(a, b at k: shared, vector(16))";
    assert_eq!(assumed(&program(MATMUL, copied), Variant::Aligned), ["K % 8 == 0", "N % 8 == 0"]);
    let known = program(MATMUL, &format!("multiple(K: 8); {copied}"));
    assert_eq!(assumed(&known, Variant::Aligned), ["K % 8 == 0", "N % 8 == 0"]);
    let more = program(MATMUL, &format!("multiple(K: 64, N: 24); {copied}"));
    assert_eq!(assumed(&more, Variant::Aligned), ["K % 64 == 0", "N % 24 == 0"]);
}

/// Vectors that read copies reach beyond an extent where the copies are zero: only vectors of global memory end within it.
#[test]
fn vectors_of_copies_assume_nothing_of_extents() {
    let tiled = "tile(i = 32, j = 32, k = 16); stage(a at k: shared, transposed); stage(b at k: shared); \
        split(i.t -> ir, iv: 4); split(j.t -> jr, jv: 4); reorder(ir, jr, k.t, iv, jv); bind(ir -> thread.y, jr -> thread.x)";
    let read = program(MATMUL, &format!("{tiled}; vectorize(iv in acc); vectorize(jv in acc)"));
    assert_eq!(assumed(&read, Variant::Aligned), [""; 0]);
    let stored = program(MATMUL, &format!("{tiled}; vectorize(iv in acc); vectorize(jv)"));
    assert_eq!(assumed(&stored, Variant::Aligned), ["N % 4 == 0"]);
}

#[test]
fn it_is_kept_by_key_and_printed() {
    let parent: Vec<_> = schedule("multiple(N: 128); fits(N <= 512)").directives;
    let child = extend(&parent, &items("multiple(N: 64)")).unwrap();
    let texts: Vec<String> = child.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["multiple(N: 64)", "fits(N <= 512)"]);
    let nest: Nest = program(VECTOR_ADD, "multiple(N: 64); fits(N <= 512); tile(i = 64)").nest;
    assert!(nest.to_string().contains("\n; multiple(N: 64)\n"), "{nest}");
    let said: Vec<String> = promises(&nest).into_iter().map(|promise| promise.directive).collect();
    assert_eq!(said, ["fits(N <= 512)", "multiple(N: 64)"]);
}
