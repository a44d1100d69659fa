//! How long a scheduled program takes to become PTX: lowering, code generation and LLVM, for each rung of the
//! matmul ladder. The budget is 150 ms a kernel.
#![allow(missing_docs, reason = "criterion_group makes an undocumented function")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tilewright::{DType, Stage, Variant, emit};

#[path = "../examples/matmul/kernel.rs"]
#[allow(missing_docs, reason = "an example's")]
mod kernel;

fn ptx(c: &mut Criterion) {
    let mut group = c.benchmark_group("ptx");
    group.sample_size(10);
    for schedule in kernel::SCHEDULES {
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

criterion_group!(benches, ptx);
criterion_main!(benches);
