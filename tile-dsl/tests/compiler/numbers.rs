//! No number in any directive makes the compiler panic or catch itself in a mistake: neither the proof nor the lowering.
//!
//! Each number of schedules that together have every one there is takes extreme values, alone and together with another.

use crate::support::*;
use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};
use tile_dsl::{
    directive::DirectiveKind,
    dtype::DType,
    engine::{self, testing::Random},
    lower::lower,
    program::Variant,
    schedule::{Schedule, Target, rows},
};

const EXTREMES: [u32; 12] = [
    0,
    1,
    3,
    1 << 16,
    1 << 20,
    1 << 29,
    1 << 30,
    (1 << 31) - (1 << 16) - 1,
    (1 << 31) - (1 << 16),
    (1 << 31) - 1,
    1 << 31,
    u32::MAX,
];

/// Every point of an axis that is nearly as long as may be.
const LONG: &str = "\
kernel long(x: &[f32; R, 2147418111], y: &mut [f32; R]) {
    axis r in program_tile(R);
    axis n in whole(2147418111);
    store(y, [r], max(load(x, [r, n]), n));
}";

/// Bounds of a dim that axes have several times.
const WIDE: &str = "\
kernel wide(x: &[f32; R, 3*N - 5], y: &mut [f32; R]) {
    axis r in program_tile(R);
    axis n in whole(3*N - 5);
    store(y, [r], max(load(x, [r, n]), n));
}";

const NEW: &str = "sm_90a";

/// A kernel, `sm_90a` or nothing, and directives.
const CASES: [(&str, &str, &str); 19] = [
    (SOFTMAX, "", SOFTMAX_SHORT),
    (SOFTMAX, "", SOFTMAX_LONG),
    (
        SOFTMAX,
        "",
        "fits(N <= 100); tile(r = 4); bind(r -> thread.x); stage(x at r: shared, vector(4)); pad(x: 4)",
    ),
    (
        SOFTMAX,
        "",
        "fits(N <= 1000); tile(r = 4, n = 32); bind(n.t -> thread.x); reduce(e.max, y.sum: cta); stage(e: shared); unroll(n.o)",
    ),
    (SOFTMAX, "", "fits(N <= 64); tile(r = 4); split(n -> no, nv: 4); vectorize(nv); bind(r -> thread.x)"),
    (SOFTMAX, "", "online(n = 16); tile(r = 4); split(n2 -> no, ni: 8); bind(r -> thread.x)"),
    (VECTOR_ADD, "", VECTOR_ADD_SCHEDULE),
    (VECTOR_ADD, "", "multiple(N: 8); tile(i = 12); segment(i: 40); persistent(1)"),
    (CONV1D, "", CONV_STAGED),
    (RECURRENCE, "", "fits(D <= 8); fits(N <= 4096); tile(i = 4, j = 16); bind(i -> thread.x)"),
    (
        ATTENTION,
        "",
        "fits(D <= 64); fits(N <= 100000); tile(i = 4, j = 16); bind(i -> thread.x); stage(k, v at j: shared, cp_async, vector(16)); pipeline(j, 3)",
    ),
    (LONG, "", "tile(r = 32, n = 8); split(n.o -> no, ni: 4); bind(r -> thread.x)"),
    (WIDE, "", "fits(N <= 100); multiple(N: 2); tile(r = 32, n = 8); bind(r -> thread.x)"),
    (
        MATMUL,
        "",
        "tile(i = 16, j = 16, k = 16); split(k.t -> ko, ki: 4); stage(a, b at k: shared, cp_async, vector(4)); pad(a: 4); pipeline(k, 2); split_k(k, 4); \
        bind(i -> thread.y, j -> thread.x); order(grouped(8)); occupancy(2); assemble(1)",
    ),
    (
        MATMUL,
        "",
        "fits(K <= 4096); tile(i = 16, j = 16, k = 16); stage(a, b at k: shared, vector(16)); fragment(a, b at k.t); pipeline(k.t, 2); pipeline(k, 2); \
        interleave(k.t: loads(3/8), copies(1/4), stores(1/2)); bind(i -> thread.y, j -> thread.x); order(serpentine(4))",
    ),
    (
        MATMUL,
        NEW,
        "fits(K <= 4096); tile(i = 16, j = 16, k = 16); split_k(k, 4; cluster); bind(i -> thread.y, j -> thread.x)",
    ),
    (
        MATMUL,
        NEW,
        "tile(i = 128, j = 64, k = 64); split(i -> iw, im: 64); tensor_core(acc: wgmma(64, 64)); bind(iw -> warpgroup.x); \
        stage(a, b at k: shared, tma); swizzle(a: 128, b: 128); pipeline(k, 4); produce(k: warpgroup); registers(24, 240); \
        issue(acc: overwrite, in_flight(1)); unroll(k.atom); cluster(i: 2); persistent(1); order(grouped(8))",
    ),
    (
        MATMUL,
        NEW,
        "fits(K <= 4096); tile(i = 64, j = 64, k = 64); tensor_core(acc: wgmma(64, 64)); stage(a, b at k: shared, tma); swizzle(a: 128, b: 128); \
        pipeline(k, 4); produce(k: warp); persistent(1); pingpong(2); issue(acc: overwrite)",
    ),
    (
        MATMUL,
        NEW,
        "tile(i = 64, j = 192, k = 64); split(j -> jw, jm: 64); tensor_core(acc: wgmma(64, 64)); stage(a, b at k: shared, tma); swizzle(a: 128, b: 128); \
        segment(j: 512); pipeline(k, 4)",
    ),
];

fn numbers(schedule: &mut Schedule, each: &mut dyn FnMut(&mut u32)) {
    schedule.directives.iter_mut().for_each(|d| d.kind.numbers(each));
}

/// Sets the `n`-th number of a schedule.
fn set(schedule: &mut Schedule, n: usize, to: u32) {
    let mut at = 0;
    numbers(schedule, &mut |number| {
        if at == n {
            *number = to;
        }
        at += 1;
    });
}

/// What goes wrong beyond a refusal.
fn fault(text: &str, schedule: &Schedule, dtype: Option<DType>) -> Option<String> {
    let run = || {
        let program = match engine::schedule(&kernel(text), schedule, dtype) {
            Ok(program) => program,
            Err(wrong) => return wrong.into_iter().map(|d| d.message).find(|m| m.contains("internal")),
        };
        let variants = [Variant::Exact, Variant::Aligned, Variant::General];
        variants
            .into_iter()
            .find_map(|variant| lower(&program, variant).err().map(|e| format!("{variant}: {e}")))
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|e| {
        let text = e.downcast_ref::<String>().cloned();
        Some(format!(
            "panic: {}",
            text.or(e.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
        ))
    })
}

fn case(n: usize) -> (Schedule, Option<DType>) {
    let (text, target, directives) = CASES[n];
    let mut schedule = schedule(directives);
    if target == NEW {
        schedule.target = Target { sm: 90, specific: true };
    }
    let dtype = kernel(text).generic.as_ref().map(|_| if target == NEW { DType::F16 } else { DType::F32 });
    (schedule, dtype)
}

fn extremes(cases: std::ops::Range<usize>) {
    let mut faults = Vec::new();
    let mut random = Random::new(7);
    for n in cases {
        let (own, dtype) = case(n);
        let mut count = 0;
        numbers(&mut own.clone(), &mut |_| count += 1);
        let mut tries: Vec<Vec<(usize, u32)>> = Vec::new();
        for at in 0..count {
            tries.extend(EXTREMES.map(|to| vec![(at, to)]));
            let other = (at + 1 + random.below(count)) % count;
            tries.push(vec![(at, *random.pick(&EXTREMES)), (other, *random.pick(&EXTREMES))]);
        }
        for changes in tries {
            let mut changed = own.clone();
            changes.iter().for_each(|(at, to)| set(&mut changed, *at, *to));
            if let Some(fault) = fault(CASES[n].0, &changed, dtype) {
                let text: Vec<String> = changed.directives.iter().map(ToString::to_string).collect();
                faults.push(format!("case {n}: {{ {} }}\n    {fault}", text.join("; ")));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn extreme_numbers_of_rows() {
    extremes(0..6);
}

#[test]
fn extreme_numbers_of_lines_and_recurrences() {
    extremes(6..13);
}

#[test]
fn extreme_numbers_of_products() {
    extremes(13..16);
}

#[test]
fn extreme_numbers_of_warpgroups() {
    extremes(16..19);
}

/// The schedules are legal as they are, and have each number that a directive may have.
#[test]
fn every_number_is_tried() {
    let has = |kind: &DirectiveKind| {
        let mut count = 0;
        kind.clone().numbers(&mut |_| count += 1);
        count > 0
    };
    let (mut tried, mut illegal) = (BTreeSet::new(), Vec::new());
    for (n, of) in CASES.iter().enumerate() {
        let (own, dtype) = case(n);
        if let Err(wrong) = engine::schedule(&kernel(of.0), &own, dtype) {
            illegal.push(format!("case {n}: {:?}", wrong.iter().map(|d| &d.message).collect::<Vec<_>>()));
        }
        assert_eq!(fault(of.0, &own, dtype), None, "case {n}");
        tried.extend(own.directives.iter().filter(|d| has(&d.kind)).map(|d| d.kind.name()));
    }
    assert!(illegal.is_empty(), "{}", illegal.join("\n"));
    let known: BTreeSet<&str> =
        rows().iter().map(|row| row.name()).filter(|name| items_of(name).iter().any(has)).collect();
    assert_eq!(tried, known);
}

/// The directive of a name as its example has it.
fn items_of(name: &str) -> Vec<DirectiveKind> {
    let row = rows().iter().find(|row| row.name() == name).expect("a row");
    let example = if name == "order" { "order(grouped(8))" } else { row.form };
    let example = if name == "stage" { "stage(a at k: shared, vector(4))" } else { example };
    let directive =
        |item| if let tile_dsl::schedule::Item::Directive(d) = item { Some(d.kind) } else { None };
    items(example).into_iter().filter_map(directive).collect()
}

/// Text takes numbers of 32 bits, and says so of others.
#[test]
fn the_reader_takes_or_refuses_every_number() {
    for row in rows() {
        let parts: Vec<&str> = row.form.split_inclusive(|c: char| !c.is_ascii_digit()).collect();
        let places = (0..parts.len()).filter(|n| parts[*n].starts_with(|c: char| c.is_ascii_digit()));
        for place in places {
            for number in [
                "0",
                "1",
                "2147483647",
                "2147483648",
                "4294967295",
                "4294967296",
                "9223372036854775808",
                "36893488147419103232",
            ] {
                let digits = parts[place].chars().take_while(char::is_ascii_digit).count();
                let text: String =
                    parts
                        .iter()
                        .enumerate()
                        .map(|(n, part)| {
                            if n == place { format!("{number}{}", &part[digits..]) } else { part.to_string() }
                        })
                        .collect();
                if let Err(e) = tile_dsl::schedule::parse(&text) {
                    assert!(!e.to_string().is_empty(), "{text}");
                } else {
                    assert!(number.parse::<u32>().is_ok(), "{text}");
                }
            }
        }
    }
}
