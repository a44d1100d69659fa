//! How long compiling takes, for each rung of the matmul ladder.
//!
//! `expansion`: proving a schedule for one element type and encoding the program, which is what `schedule!` does while
//! `rustc` runs; the budget is 100 ms unoptimised. `ptx`: lowering, code generation and LLVM; the budget is 150 ms.
//!
//! `cargo bench --bench compile` is optimised. Proc macros are not by default, so for their times:
//! `cargo bench --profile dev --config profile.dev.package.tile-dsl.opt-level=0
//! --config profile.dev.package.egg.opt-level=0 --bench compile -- expansion`.
#![allow(missing_docs, reason = "criterion_group makes an undocumented function")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tile_dsl::{engine, program::Program, tile::Kernel as Tile};
use tilewright::{DType, Stage, Variant, emit};

#[path = "../examples/matmul/kernel.rs"]
#[allow(missing_docs, reason = "an example's")]
mod kernel;

fn expansion(c: &mut Criterion) {
    let tile = Tile::from_bytes(kernel::matmul::KERNEL).expect("an embedded kernel");
    let mut group = c.benchmark_group("expansion");
    group.sample_size(10);
    for schedule in kernel::SCHEDULES.iter().chain(kernel::BY_SIZE) {
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
    group.finish();
}

fn ptx(c: &mut Criterion) {
    let mut group = c.benchmark_group("ptx");
    group.sample_size(10);
    for schedule in kernel::SCHEDULES.iter().chain(kernel::BY_SIZE) {
        for variant in [Variant::Exact, Variant::General] {
            group.bench_function(format!("{} {variant}", schedule.name()), |b| {
                b.iter(|| {
                    emit(black_box(*schedule), Some(DType::F32), variant, Stage::Ptx).expect("it compiles")
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, expansion, ptx);
criterion_main!(benches);
