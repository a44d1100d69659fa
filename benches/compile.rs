//! How long compiling takes, for each rung of the matmul ladder.
//!
//! `expansion`: proving a schedule for one element type and encoding the program, which is what `schedule!` does while
//! `rustc` runs; the budget is 100 ms unoptimised. `together`: every schedule of the example's three kernels for all their
//! element types, as one expansion proves them, 2 s unoptimised; and loops in reverse order, of which ten may take 300 ms.
//! `mistake`: a schedule with a tile that is too large, for a kernel of 30 values and three element types, and for the
//! longest ones of the example, help included; the budget is 1 s unoptimised. `ptx`: lowering, code generation and LLVM; the
//! budget is 150 ms. What was measured last is in `docs/performance-compiler.md`, "Compile times".
//!
//! `cargo bench --bench compile` is optimised. Proc macros are not by default, so for their times:
//! `cargo bench --profile dev --config profile.dev.package.tile-dsl.opt-level=0
//! --config profile.dev.package.egg.opt-level=0 --bench compile -- 'expansion|together|mistake'`.
#![allow(missing_docs, reason = "criterion_group makes an undocumented function")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tile_dsl::{
    directive::{self, DirectiveKind},
    engine,
    program::Program,
    schedule::{Directive, Schedule, Target, Unit, UnitDim},
    span::SpanId,
    tile::Kernel as Tile,
};
use tilewright::{AnySchedule, DType, Stage, Variant, emit};

#[path = "../examples/matmul/f8.rs"]
#[allow(missing_docs, reason = "an example's")]
mod eight;
#[path = "../examples/matmul/kernel.rs"]
#[allow(missing_docs, reason = "an example's")]
mod product;

/// The kernels of the example, each with all of its schedules.
fn kernels() -> [(Tile, Vec<&'static dyn AnySchedule>); 3] {
    let tile = |encoded| Tile::from_bytes(encoded).expect("an embedded kernel");
    [
        (tile(product::matmul::KERNEL), [product::SCHEDULES, product::BY_SIZE].concat()),
        (tile(product::matmul_tf32::KERNEL), product::TF32.to_vec()),
        (tile(eight::matmul_f8::KERNEL), eight::F8.to_vec()),
    ]
}

fn expansion(c: &mut Criterion) {
    let mut group = c.benchmark_group("expansion");
    group.sample_size(10);
    for (tile, schedules) in kernels() {
        for schedule in schedules {
            for dtype in schedule.dtypes() {
                let encoded = schedule.program(Some(*dtype)).expect("the schedule admits the type");
                let directives = Program::from_bytes(encoded).expect("an embedded program").schedule;
                group.bench_function(format!("{} {dtype}", schedule.name()), |b| {
                    b.iter(|| {
                        engine::schedule(black_box(&tile), black_box(&directives), Some(*dtype))
                            .expect("it was proved")
                            .to_bytes()
                    });
                });
            }
        }
    }
    group.finish();
}

/// The schedule that a program was proved for, with all its element types.
fn directives(schedule: &dyn AnySchedule) -> Schedule {
    let encoded = schedule.program(Some(schedule.dtypes()[0])).expect("the schedule admits its types");
    let proved = Program::from_bytes(encoded).expect("an embedded program").schedule;
    Schedule { dtypes: schedule.dtypes().to_vec(), ..proved }
}

/// Tiles split into `loops` loops, in reverse order.
fn reversed(loops: usize) -> Schedule {
    let axes = ["i", "j", "k"];
    let of = |n: usize| loops / 3 + usize::from(n < loops % 3);
    let name = |n: usize, part: usize| format!("{}{part}", axes[n]);
    let tile = |n: usize| DirectiveKind::Tile(directive::Tile { axis: axes[n].into(), size: 64 });
    let split = |n: usize| {
        DirectiveKind::Split(directive::Split {
            digit: axes[n].into(),
            names: (0..of(n)).map(|part| name(n, part)).collect(),
            factors: vec![2; of(n) - 1],
        })
    };
    let bind = |(n, dim): (usize, UnitDim)| {
        DirectiveKind::Bind(directive::Bind { digit: name(n, 0), unit: Unit::Thread, dim, xor: None })
    };
    let digits = (0..3).rev().flat_map(|n| (0..of(n)).rev().map(move |part| (n, part)));
    let reorder = DirectiveKind::Reorder(directive::Reorder {
        digits: digits.map(|(n, part)| name(n, part)).collect(),
        within: Some("acc".into()),
    });
    let kinds = (0..3)
        .map(tile)
        .chain((0..3).map(split))
        .chain([reorder])
        .chain([(0, UnitDim::Y), (1, UnitDim::X)].map(bind));
    let directive = |(n, kind)| Directive { kind, span: SpanId(n as u32 + 1), inherited: None };
    Schedule {
        name: "reversed".into(),
        kernel: "matmul".into(),
        dtypes: vec![DType::F32],
        target: Target::DEFAULT,
        directives: kinds.enumerate().map(directive).collect(),
    }
}

fn together(c: &mut Criterion) {
    let mut group = c.benchmark_group("together");
    group.sample_size(10);
    let kernels = kernels().map(|(tile, all)| {
        let schedules: Vec<Schedule> = all.into_iter().map(directives).collect();
        (tile, schedules)
    });
    let tile = &kernels[0].0;
    let prove = |tile: &Tile, schedules: &[Schedule]| -> usize {
        let mut prover = engine::Prover::new(tile.clone());
        let proved = |s| prover.schedule(s, engine::MOST_TRIALS).expect("it was proved");
        schedules.iter().flat_map(proved).map(|program| program.to_bytes().len()).sum()
    };
    group.bench_function("all schedules", |b| {
        b.iter(|| black_box(&kernels).iter().map(|(tile, all)| prove(tile, all)).sum::<usize>());
    });
    for loops in [6, 10, 12] {
        let schedule = [reversed(loops)];
        group.bench_function(format!("{loops} loops reversed"), |b| {
            b.iter(|| prove(black_box(tile), black_box(&schedule)));
        });
    }
    group.finish();
}

/// A chain of values, as the tile IR's text.
fn chain(values: usize) -> Tile {
    let steps: String =
        (1..values).map(|n| format!("    let v{n} = v{} * 0.5 + v{};\n", n - 1, n / 2)).collect();
    let text = format!(
        "kernel chain<T>(x: &[T; M, N], y: &mut [T; M, N]) {{\n    axis i in program_tile(M);\n    \
         axis j in program_tile(N);\n    let v0 = load(x, [i, j]);\n{steps}    store(y, [i, j], v{});\n}}\n",
        values - 1
    );
    tile_dsl::tile::parse(&text).expect("the text of a kernel")
}

fn mistake(c: &mut Criterion) {
    let tile = |axis: &str| DirectiveKind::Tile(directive::Tile { axis: axis.into(), size: 256 });
    let tiles = [tile("i"), tile("j")].into_iter().enumerate();
    let directive = |(n, kind)| Directive { kind, span: SpanId(n as u32 + 1), inherited: None };
    let schedule = Schedule {
        name: "large".into(),
        kernel: "chain".into(),
        dtypes: vec![DType::F32, DType::F16, DType::BF16],
        target: Target::DEFAULT,
        directives: tiles.map(directive).collect(),
    };
    let mut group = c.benchmark_group("mistake");
    group.sample_size(10);
    for values in [10, 30, 100] {
        let tile = chain(values);
        group.bench_function(format!("{values} values"), |b| {
            b.iter(|| {
                let mut prover = engine::Prover::new(black_box(&tile).clone());
                prover.schedule(black_box(&schedule), engine::MOST_TRIALS).expect_err("it is too large")
            });
        });
    }
    // Long schedules for two and three types, with more shared memory than there is.
    let tile = &kernels()[0].0;
    for schedule in [&product::prefetched as &dyn AnySchedule, &product::wgmma_best] {
        let mut large = directives(schedule);
        for directive in &mut large.directives {
            if let DirectiveKind::Tile(directive::Tile { axis, size }) = &mut directive.kind
                && axis == "k"
            {
                *size = 1024;
            }
        }
        group.bench_function(schedule.name(), |b| {
            b.iter(|| {
                let mut prover = engine::Prover::new(black_box(tile).clone());
                prover.schedule(black_box(&large), engine::MOST_TRIALS).expect_err("it is too large")
            });
        });
    }
    group.finish();
}

fn ptx(c: &mut Criterion) {
    let mut group = c.benchmark_group("ptx");
    group.sample_size(10);
    for schedule in product::SCHEDULES.iter().chain(product::BY_SIZE) {
        let dtype = schedule.dtypes()[0];
        for variant in [Variant::Exact, Variant::General] {
            group.bench_function(format!("{} {dtype} {variant}", schedule.name()), |b| {
                b.iter(|| emit(black_box(*schedule), Some(dtype), variant, Stage::Ptx).expect("it compiles"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, expansion, together, mistake, ptx);
criterion_main!(benches);
